"""Icons, of the package lucide. They stand beside words and never for them, so they say nothing to a screen reader."""

from functools import cache

from django import template
from lucide.templatetags.lucide import lucide

register = template.Library()


@register.simple_tag
@cache
def icon(name: str) -> str:
    """The icon of that name, as large and as dark as the text beside it. Raises IconDoesNotExist."""
    return lucide(name, size=16, stroke_width="1.75", aria_hidden="true", **{"class": "icon"})
