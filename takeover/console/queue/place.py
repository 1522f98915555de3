"""Where in the queue somebody is: everything that its address says."""

from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.db.models import Q
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _

from runs.models import Run
from runs.models.run import RunQuerySet
from takeover.console import desk
from takeover.console.queue import search
from takeover.console.queue.filters import FILTERS, Field, fields
from takeover.console.queue.paging import ORDERS, Order, Page, if_few, page, page_of_many

PILES = ("human", "waiting", "limit", "approval")
FOUND_UP_TO = 100  # of what a search finds elsewhere


@dataclass(frozen=True)
class Chip:
    """A filter that is set, and the address without it."""

    label: str
    word: str
    without: str


@dataclass(frozen=True)
class Place:
    tab: desk.Tab
    filters: dict[str, str] = field(default_factory=dict)  # by name, in the order of FILTERS
    search: str = ""
    sort: str = ""  # empty: as the tab is sorted anyway
    after: str = ""
    faults: tuple[str, ...] = ()  # what of the address could not be followed and was left out, in sentences

    @classmethod
    def of(cls, query: QueryDict) -> "Place":
        tab = desk.TABS.get(query.get("tab", "human"))
        if tab is None:
            raise BadRequest(_("There is no such part of the queue."))
        if "\x00" in query.urlencode() or "%00" in query.urlencode():
            raise BadRequest(_("This text cannot be searched for."))
        asked = {name: query.get(name, "") for name in FILTERS}
        faults = [fault for name, value in asked.items() if (fault := FILTERS[name].fault(value))]
        kept = {name: value for name, value in asked.items() if value and FILTERS[name].knows(value)}
        sort = query.get("sort", "")
        if sort and sort not in tab.orders:
            faults.append(
                _("Order: this part of the queue is not sorted like that. It was left out; choose one from the list.")
            )
        sort = sort if sort in tab.orders[1:] else ""
        text = query.get("q", "").strip()[: search.LONGEST]
        return cls(tab, kept, text, sort, query.get("after", ""), tuple(faults))

    @classmethod
    def kept(cls, query: str) -> "Place":
        """The place that a saved view names, whatever has become of its parts since."""
        wanted = QueryDict(query, mutable=True)
        if wanted.get("tab", "human") not in desk.TABS:
            del wanted["tab"]
        return cls.of(wanted)

    @property
    def order(self) -> Order:
        return ORDERS[self.sort or self.tab.orders[0]]

    @property
    def is_narrowed(self) -> bool:
        return bool(self.search or self.filters)

    def query(self, **change: str) -> str:
        now = {"tab": self.tab.name, **self.filters, "q": self.search, "sort": self.sort, **change}
        return urlencode({name: value for name, value in now.items() if value and (name, value) != ("tab", "human")})

    def address(self, **change: str) -> str:
        query = self.query(**change)
        return reverse("queue") + (f"?{query}" if query else "")

    def here(self) -> str:
        return self.address(after=self.after)

    def plain(self) -> str:
        """The same part with nothing set."""
        return Place(self.tab).address()

    def orders(self) -> list[tuple[Order, str, bool]]:
        """What this part can be sorted by: each with its address, and whether it is."""
        first = self.tab.orders[0]
        found = [(ORDERS[name], self.address(sort="" if name == first else name)) for name in self.tab.orders]
        return [(order, address, order is self.order) for order, address in found]

    def fields(self) -> list[Field]:
        return fields(self.filters, among_the_closed=self.tab.name == "closed")

    def chips(self, among: list[Field]) -> list[Chip]:
        return [
            Chip(str(one.filter.label), one.chosen, self.address(**{one.filter.name: ""}))
            for one in among
            if one.filter.name in self.filters
        ]

    def runs(self, person: User) -> RunQuerySet:
        """Every run of this part, unordered."""
        return self._fitting(person).filter(desk.pile(self.tab.name, person))

    def page(self, person: User) -> Page:
        """The runs that are shown of this part."""
        found, all_stopped = self.runs(person), self.tab.name == "closed"
        quick = if_few(found) if self.search else found
        if quick is None:
            says, part = search.found_by(self.search, by_index=False), replace(self, search="").runs(person)
            if full := page_of_many(part, says, self.order, self.after, all_stopped=all_stopped):
                return full
        return page(found if quick is None else quick, self.order, self.after, all_stopped=all_stopped)

    def elsewhere(self, person: User) -> list[tuple[desk.Tab, int, str]]:
        """The other parts in which the search finds something, how much, and where. In one query."""
        if not self.search:
            return []
        piles = {name: desk.pile(name, person) for name in (*PILES, "open", "closed")}
        piles["by itself"] = desk.BY_ITSELF
        fitting = self._fitting(person)
        found = desk.counted({name: fitting.filter(pile) for name, pile in piles.items()}, person, FOUND_UP_TO)
        shown = [] if self.tab.name == "open" else [*PILES]
        if found["by itself"]:  # which is in no pile
            shown = [*shown, "open"]
        return [
            (desk.TABS[name], found[name], self.address(tab=name, sort=""))
            for name in (*shown, "closed")
            if found[name] and name != self.tab.name
        ]

    def _fitting(self, person: User) -> RunQuerySet:
        """Every run that the filters and the search leave, in whatever part."""
        rules = [FILTERS[name].rule(value, person) for name, value in self.filters.items()]
        return Run.objects.filter(*rules, search.found_by(self.search) if self.search else Q())
