from itertools import permutations

import pytest

from runs.domain.contract import ContractError, Value, combine

MET, UNMET, UNKNOWN = Value.MET, Value.UNMET, Value.UNKNOWN


@pytest.mark.parametrize(
    ("sources", "links", "originals", "combined"),
    [(MET, UNKNOWN, MET, UNKNOWN), (MET, UNMET, MET, UNMET), (MET, MET, MET, MET), (UNKNOWN, UNMET, MET, UNMET)],
)
def test_the_hand_calculations_of_the_third_source_document(
    sources: Value, links: Value, originals: Value, combined: Value
) -> None:
    given = {"sources": sources, "links": links, "originals": originals}
    for order in permutations(given):
        assert combine({name: given[name] for name in order}) is combined


def test_an_empty_contract_is_refused() -> None:
    with pytest.raises(ContractError) as refused:
        combine({})
    assert refused.value.field == "contract"


@pytest.mark.parametrize("value", [True, None, 1, "yes", float("nan")])
def test_only_the_three_values_are_accepted(value: object) -> None:
    with pytest.raises(ContractError) as refused:
        combine({"sources": MET, "links": value})  # type: ignore[dict-item]
    assert refused.value.field == "links"
