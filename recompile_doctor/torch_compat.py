"""What each torch release understands, as named facts; no version is compared elsewhere.

All facts were measured on 2.6.0, 2.7.1, 2.8.0, 2.9.1, 2.10.0, 2.11.0, 2.12.1, 2.13.0, 2.14.1 and
2.15.0 (docs/torch-support.md). Logs are read liberally and need none of them; they are asked only
when something is produced for a release.
"""

import re
from dataclasses import dataclass

from recompile_doctor.errors import DoctorError

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
OLDEST = (2, 6)
NEWEST_MEASURED = (2, 15)


@dataclass(frozen=True, slots=True)
class TorchFeatures:
    """What one release of torch understands.

    ``dynamic_sources`` and the like are the environment variables TORCH_COMPILE_*_SOURCES;
    ``source_patterns`` tells that their entries are also tried as regular expressions, and
    ``source_dims`` that ``:N`` behind an entry means dimension N (before, such an entry silently
    hits nothing). ``parameters_need_both_lists``: a parameter or buffer becomes unbacked only
    when it is in the unbacked and in the dynamic list. ``dynamic_beats_unbacked``: a dimension
    in both lists is dynamic (before 2.15 it is unbacked).
    ``mark_hints``, ``mark_groups``, ``mark_bounds``: ``mark_unbacked`` takes ``hint_override``,
    ``shape_id``, ``min`` and ``max``. ``shapes_argument`` is the name of the argument of
    ``torch.compile`` that declares shapes, None where there is none.
    ``automatic_unbacked``: ``automatic_dynamic_shapes_mark_as="unbacked"`` works.
    """

    version: tuple[int, int]
    dynamic_sources: bool
    unbacked_sources: bool
    static_sources: bool
    source_patterns: bool
    source_dims: bool
    parameters_need_both_lists: bool
    dynamic_beats_unbacked: bool
    mark_hints: bool
    mark_groups: bool
    mark_bounds: bool
    shapes_argument: str | None
    automatic_unbacked: bool


def parse_version(text: str) -> tuple[int, int]:
    """Return major and minor of a version such as ``2.13.0+cpu``.

    Raises DoctorError when it is no version, or older than 2.6.
    """
    match = _VERSION.match(text.strip())
    if match is None:
        raise DoctorError(
            f"{text!r} is not a version of torch.",
            slug="unknown-torch-version",
            hint="Write it as 2.13 or 2.13.0.",
        )
    version = int(match[1]), int(match[2])
    if version < OLDEST:
        raise DoctorError(
            f"torch {text} is not supported: the oldest release is 2.6.",
            slug="unsupported-torch",
            hint="Give another release with --target-torch.",
        )
    return version


def features_of(text: str) -> TorchFeatures:
    """Return what torch ``text`` understands; a release newer than 2.15 is taken for 2.15."""
    version = parse_version(text)
    return TorchFeatures(
        version=version,
        dynamic_sources=version >= (2, 7),
        unbacked_sources=version >= (2, 8),
        static_sources=version >= (2, 15),
        source_patterns=version >= (2, 8),
        source_dims=version >= (2, 13),
        parameters_need_both_lists=(2, 8) <= version < (2, 15),
        dynamic_beats_unbacked=version >= (2, 15),
        mark_hints=version >= (2, 10),
        mark_groups=version >= (2, 11),
        mark_bounds=version >= (2, 12),
        shapes_argument=_shapes_argument(version),
        automatic_unbacked=version >= (2, 12),
    )


def _shapes_argument(version: tuple[int, int]) -> str | None:
    if version >= (2, 14):
        return "dynamic_shapes"
    return "shapes_spec" if version >= (2, 13) else None
