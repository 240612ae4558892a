"""tlparse's pages of a bundle or a trace, made when asked for."""

import tempfile
from pathlib import Path

from recompile_doctor.bundle import is_bundle, open_bundle
from recompile_doctor.errors import DoctorError

_TRACE_NAMES = "dedicated_log_torch_trace*"


def make_pages_of(target: Path) -> Path:
    """Return the index page that tlparse made of the trace files of ``target``.

    The pages of a bundle stay in the bundle; those of a foreign trace in a temporary folder.
    """
    from recompile_doctor.reports.tlparse_pages import make_pages

    if is_bundle(target):
        bundle = open_bundle(target)
        files, folder = list(bundle.trace_files()), bundle.path / "tlparse"
    else:
        files = sorted(target.glob(_TRACE_NAMES)) if target.is_dir() else [target]
        folder = _temporary_folder()
    if not files:
        raise DoctorError(
            f"There is no TORCH_TRACE file in {target}.",
            slug="no-trace",
            hint="tlparse reads TORCH_TRACE files only; a text log has none.",
        )
    return make_pages(files, folder)


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="recompile-doctor-tlparse-"))
    except OSError as error:
        raise DoctorError(
            f"There is no room for the pages: {error.strerror or error}.",
            slug="tlparse-failed",
            hint="Free some space, or let TMPDIR name a folder that you may write to.",
        ) from error
