"""Traced modules over HTTP: ``tapegrad serve`` (docs/serve.md).

`Server` listens and answers, `Worker` runs requests one by one or several at a time, `formats`
reads bodies and writes answers.
"""

from tapegrad.serving.server import Limits, Server
from tapegrad.serving.worker import Refused, Worker

__all__ = ["Limits", "Refused", "Server", "Worker"]
