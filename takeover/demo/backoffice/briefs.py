"""Which questions may be researched, for whom, and what the research desk holds of each publisher."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Brief:
    """What somebody wants to know before entering a market."""

    brief_id: str
    product: str
    city: str
    topic: str  # as the library's sources name it
    language: str
    commissioned_by: str
    open: bool = True
    version: int = 1


@dataclass(frozen=True)
class Publisher:
    """`house`: who owns it. Two publishers of one house are one voice."""

    name: str
    house: str
    qualified: bool
    because: str


BRIEFS = {
    brief.brief_id: brief
    for brief in (
        Brief("M101", "electric cargo bikes", "Havenport", "electric cargo bikes in Havenport", "en", "U-88"),
        Brief("M102", "balcony solar kits", "Kestrel Bay", "balcony solar kits in Kestrel Bay", "en", "U-89"),
        Brief("M103", "refill shops", "Linwick", "refill shops in Linwick", "en", "U-90"),
        Brief("M104", "共享充电宝", "临江市", "临江市共享充电宝", "zh", "U-91"),
        Brief(
            "M105", "tidal kettles", "Havenport", "tidal kettles in Havenport", "en", "U-92"
        ),  # nothing is held on it
        Brief("M106", "electric cargo bikes", "Westerby", "electric cargo bikes in Westerby", "en", "U-93", open=False),
    )
}

COUNTS, SURVEYS, REPORTS = "publishes its own counts", "publishes its own surveys", "has an editorial office"
SELLS, ANYBODY = "sells what it writes about", "prints what anybody sends in"

PUBLISHERS = (
    Publisher("Havenport Statistics Office", "City of Havenport", True, COUNTS),
    Publisher("Harbour Chamber of Commerce", "Harbour Chamber of Commerce", True, SURVEYS),
    Publisher("Cycle Trade Review", "Meridian Media", True, REPORTS),
    Publisher("Havenport Courier", "Meridian Media", True, REPORTS),
    Publisher("Wheelhouse Cargo", "Wheelhouse Cargo", False, SELLS),
    Publisher("Pedal Board", "Pedal Board", False, ANYBODY),
    Publisher("Kestrel Bay Energy Agency", "City of Kestrel Bay", True, SURVEYS),
    Publisher("Kestrel Bay Gazette", "City of Kestrel Bay", True, REPORTS),
    Publisher("Bay Grid Operator", "Bay Grid Operator", True, COUNTS),
    Publisher("SunShelf", "SunShelf", False, SELLS),
    Publisher("Solar Lounge", "Solar Lounge", False, ANYBODY),
    Publisher("Linwick University Retail Lab", "Linwick University", True, SURVEYS),
    Publisher("Linwick Consumer Council", "Linwick Consumer Council", True, SURVEYS),
    Publisher("Linwick Gazette", "Fennel Press", True, REPORTS),
    Publisher("Refill Now", "Refill Now", False, ANYBODY),
    Publisher("Jar Talk", "Jar Talk", False, ANYBODY),
    Publisher("临江市统计局", "临江市统计局", True, COUNTS),
    Publisher("江城商业评论", "商评传媒", True, REPORTS),
    Publisher("临江日报", "临江报业", True, REPORTS),
    Publisher("临江晚报", "临江报业", True, REPORTS),
    Publisher("充电宝吧", "充电宝吧", False, ANYBODY),
)  # Office Supply Monthly is not on the register: nobody has looked at it yet.
