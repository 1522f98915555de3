"""What the back office knows when it opens. The business date is its own, so the figures hold on any day."""

from dataclasses import dataclass

BUSINESS_DATE = "2026-09-25"
CREDENTIALS = frozenset({"demo-key", "demo-key-2"})
DESK = frozenset({"support", "support2", "supervisor", "administrator"})
REPLAY_GUARANTEE_HOURS = 24

# The order of the story whose receipt everybody quotes.
STORY_ORDER, STORY_RECEIPT = "B456", 789


@dataclass(frozen=True)
class Order:
    order_id: str
    customer: str
    item: str
    delivered_on: str
    opened: bool
    amount_minor: int
    currency: str = "EUR"
    version: int = 1


@dataclass(frozen=True)
class Policy:
    version: str
    valid_from: str
    valid_to: str | None
    window_days: int
    kind: str = "refund"
    requires_unopened: bool = True
    approval_above_minor: int = 100_00
    currency: str = "EUR"

    def claims(self, day: str) -> bool:
        return self.valid_from <= day and (self.valid_to is None or day <= self.valid_to)


POLICIES = (
    Policy("v2", "2026-01-01", "2026-06-30", window_days=14),
    Policy("v3", "2026-07-01", None, window_days=7),
)
# Under `policy_conflict` both v3 and this one claim the day.
CONFLICTING_POLICY = Policy("v4", "2026-09-01", None, window_days=3)
# Under `policy_changed` it is in force alone, and three days after delivery is one too many.
SUCCEEDING_POLICY = Policy("v4", BUSINESS_DATE, None, window_days=2)

SEALED, OPENED = False, True

ORDERS = (
    Order("B456", "U-88", "Wireless headphones", "2026-09-22", SEALED, 59_00),
    Order("A123", "U-88", "In-ear headphones", "2026-09-20", OPENED, 79_00),
    # Within the window, unopened, up to 100.00 EUR.
    Order("C317", "U-88", "Tea set", "2026-09-23", SEALED, 38_00),
    Order("C881", "U-89", "Desk lamp", "2026-09-21", SEALED, 42_50),
    Order("D014", "U-90", "Travel kettle", "2026-09-23", SEALED, 34_90),
    Order("D041", "U-91", "Electric toothbrush", "2026-09-22", SEALED, 64_00),
    Order("E307", "U-92", "Bluetooth speaker", "2026-09-19", SEALED, 89_90),
    Order("F562", "U-93", "Mechanical keyboard", "2026-09-24", SEALED, 99_00),
    Order("G118", "U-94", "Yoga mat", "2026-09-20", SEALED, 27_95),
    Order("H230", "U-95", "Bicycle light set", "2026-09-23", SEALED, 31_40),
    Order("J075", "U-96", "Cast-iron pan", "2026-09-18", SEALED, 54_00),
    Order("K419", "U-97", "Rain jacket, M", "2026-09-22", SEALED, 84_95),
    Order("L663", "U-98", "Board game", "2026-09-21", SEALED, 39_99),
    Order("M152", "U-99", "USB-C dock", "2026-09-24", SEALED, 74_50),
    Order("N508", "U-89", "Notebook set", "2026-09-20", SEALED, 18_60),
    Order("P291", "U-90", "Camping stove", "2026-09-19", SEALED, 62_00),
    Order("Q734", "U-91", "Running belt", "2026-09-23", SEALED, 22_00),
    Order("R046", "U-92", "Digital kitchen scale", "2026-09-22", SEALED, 29_90),
    Order("S387", "U-93", "Wool blanket", "2026-09-21", SEALED, 69_00),
    Order("T915", "U-94", "Phone stand", "2026-09-24", SEALED, 16_50),
    Order("U260", "U-95", "Garden shears", "2026-09-18", SEALED, 37_80),
    Order("V803", "U-96", "Wall clock", "2026-09-23", SEALED, 45_00),
    Order("W549", "U-97", "Webcam", "2026-09-20", SEALED, 71_20),
    Order("X177", "U-98", "Tea sampler", "2026-09-22", SEALED, 24_00),
    Order("Y632", "U-99", "Picture frame", "2026-09-19", SEALED, 33_30),
    # Within the window, unopened, above 100.00 EUR: a person has to approve.
    Order("C204", "U-88", "Noise-cancelling headphones", "2026-09-21", SEALED, 249_00),
    Order("D586", "U-89", "Espresso machine", "2026-09-22", SEALED, 389_00),
    Order("E912", "U-90", "Office chair", "2026-09-20", SEALED, 279_00),
    Order("F033", "U-91", "Robot vacuum", "2026-09-23", SEALED, 329_00),
    Order("G470", "U-92", "E-reader", "2026-09-24", SEALED, 139_90),
    Order("H859", "U-93", "27-inch monitor", "2026-09-19", SEALED, 219_00),
    Order("J341", "U-94", "Trekking backpack", "2026-09-21", SEALED, 164_50),
    Order("K728", "U-95", "Stand mixer", "2026-09-18", SEALED, 299_00),
    Order("L195", "U-96", "Smart watch", "2026-09-22", SEALED, 199_00),
    Order("L370", "U-90", "Inflatable kayak", "2026-09-22", SEALED, 249_50),
    Order("M604", "U-97", "Folding tent", "2026-09-23", SEALED, 184_00),
    Order("N267", "U-98", "Graphics tablet", "2026-09-20", SEALED, 129_00),
    Order("P850", "U-99", "Air purifier", "2026-09-24", SEALED, 149_95),
    # Too late for the window of seven days.
    Order("Q018", "U-89", "Coffee grinder", "2026-09-10", SEALED, 58_00),
    Order("R573", "U-91", "Table fan", "2026-08-27", SEALED, 44_90),
    Order("S126", "U-93", "Hiking boots, 42", "2026-09-17", SEALED, 119_00),
    Order("T690", "U-95", "Solar charger", "2026-09-02", SEALED, 49_00),
    Order("U445", "U-97", "Record player", "2026-07-15", SEALED, 159_00),
    # Opened.
    Order("V312", "U-90", "Gaming mouse", "2026-09-22", OPENED, 46_00),
    Order("W784", "U-92", "Hair dryer", "2026-09-21", OPENED, 52_90),
    Order("X058", "U-94", "Drone", "2026-09-23", OPENED, 239_00),
    Order("Y921", "U-96", "Jigsaw puzzle", "2026-09-24", OPENED, 21_00),
    Order("Z307", "U-98", "Foam roller", "2026-09-20", OPENED, 25_50),
)
