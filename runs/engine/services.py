"""Which service a tool's calls go to, and under which credential: from the SERVICES setting, read at each call."""

from django.conf import settings

from runs.domain.errors import Failure
from runs.tools.folder import Folder
from runs.tools.http import HttpService
from runs.tools.tool import Service, ToolFailed


def service(name: str) -> Service | Folder:
    """The connection to a configured service. Raises ToolFailed where the installation has none of that name."""
    try:
        configured = settings.SERVICES[name]
    except KeyError:
        raise ToolFailed(Failure("tool_missing", f"No service {name!r} is configured.", executed=False)) from None
    if folder := configured.get("folder"):
        return Folder(folder)
    return HttpService(configured["url"], configured["token"])
