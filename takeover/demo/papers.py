"""The demo's documents: a few papers of a valley that runs short of water, one of them saved as it should not be."""

from pathlib import Path
from shutil import copyfile

from django.conf import settings

PAPERS = Path(__file__).parent / "documents"


def lay_out() -> None:
    """Put the papers that are not there into the folder that digests are made in; those that are there stay."""
    folder = Path(settings.SERVICES["documents"]["folder"])
    for paper in PAPERS.rglob("*.md"):
        place = folder / paper.relative_to(PAPERS)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            copyfile(paper, place)
