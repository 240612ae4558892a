"""Sources by torch's names, in full and as recompile reasons shorten them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recompile_doctor.model.source import (
    Applied,
    Attribute,
    Called,
    Global,
    Item,
    Key,
    Local,
    Other,
    SizeSource,
    Source,
    StorageOffset,
    StrideSource,
    Verbatim,
    leaf_of,
    parse_leaf,
    parse_source,
    source_of,
    strip_local_scope,
)

CACHE = "L['self']._modules['layers']._modules['1']._buffers['cache']"
HOOKS = "L['fn']._modules['0']._forward_hooks"

NAMES = (
    "L['x']",
    "G['T']",
    "L['___stack0']",
    "L['___stack0'].__self__",
    "L['.0'][2]",
    "L['args'][0]",
    "L['d'][-1]",
    "L['d'][True]",
    "L['d'][(1, 'a]')]",
    "L['d'][slice(None, 3, None)]",
    """L['k']['in put, "x"']""",
    """L['k']["it's"]""",
    r"""L['k']['both \' and "']""",
    r"L['k']['line\nbreak\\']",
    "L['k']['größe 数据']",
    CACHE,
    f"{HOOKS}[list(dict.keys({HOOKS}))[0]].seen",
    "getattr(L['m'], 'a-b').weight",
    "dict(type(L['o']).__dict__)['k']",
    "dict.__getitem__(L['d'], list(dict.keys(L['d']))[0])",
    "list.__getitem__(L['l'], 3)",
    "___from_numpy(L['frame'])",
    "___as_tensor(L['lr']).item()",
    "___tuple_iterator_getitem(L['it'], 1)",
    "object.__getattribute__(L['o'], 'x')",
    "L['f'].__closure__[0].cell_contents",
    "L['t'].__tensor_flatten__()[0]",
    "G['__optimizer_139643155874464_c0']()",
    "__import__('torch.nn').functional.relu",
    "___get_torch_function_mode_stack_at(0)",
)


@pytest.mark.parametrize("name", NAMES)
def test_full_names(name: str) -> None:
    """A full name is understood and comes back as it was."""
    source = parse_source(name)
    assert str(source) == name
    assert source.is_known or name.startswith(("__import__", "___get_torch_function_mode"))


@pytest.mark.parametrize("name", NAMES)
def test_short_names(name: str) -> None:
    """A name as recompile reasons show it gives the full name again."""
    source = parse_source(name)
    assert source.short == strip_local_scope(name)
    assert parse_source(source.short, stripped=True) == source


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("x", "L['x']"),
        ("self.a[0]", "L['self'].a[0]"),
        ("G['T'].x", "G['T'].x"),
        ("L['k']", "L['L']['k']"),  # a local variable that is called L
        ("MODEL['a']", "L['MODEL']['a']"),
    ],
)
def test_stripped(short: str, full: str) -> None:
    """In a shortened name the first name is a local variable."""
    assert str(parse_source(short, stripped=True)) == full


def test_form_is_found_out() -> None:
    """Without being told, a full name is taken as one, and any other as shortened."""
    assert parse_source("L['x'].a", stripped=None) == parse_source("x.a", stripped=None)


@pytest.mark.parametrize(
    "text", ["", "x", "L['x", "L[x]", "L['x'].", "L['x']..a", "L['x'] + 1", "L['x']['a", "f(L['x']"]
)
def test_other_texts(text: str) -> None:
    """What is no source is kept in torch's words."""
    assert parse_source(text) == Source(Other(text))
    assert not parse_source(text).is_known


def test_sizes_strides_and_offsets() -> None:
    """The last steps tell a size, a stride or an offset."""
    x = Source(Local("x"))
    assert parse_leaf("L['x'].size()[0]") == SizeSource(x, 0)
    assert parse_leaf("x.stride()[1]", stripped=True) == StrideSource(x, 1)
    assert parse_leaf("L['x'].storage_offset()") == StorageOffset(x)
    assert parse_leaf("L['x'].size()['a']") == parse_source("L['x'].size()['a']")
    for leaf in (SizeSource(x, 3), StrideSource(x, 3), StorageOffset(x), x):
        assert parse_leaf(str(leaf)) == leaf
        assert source_of(leaf) == x


def test_what_a_path_tells() -> None:
    """Parameters, buffers, attributes, bases of views and resume stacks are known by the path."""
    cache = parse_source(CACHE)
    assert cache.is_buffer
    assert not cache.is_parameter
    assert not cache.is_module_attribute
    assert cache.root_name == "self"
    assert str(cache.parent()) == CACHE.removesuffix("['cache']")
    assert parse_source("L['self']._parameters['w']").is_parameter
    assert parse_source("L['self'].step").is_module_attribute
    assert parse_source("L['self']._modules['0'].idx").is_module_attribute
    assert not parse_source("L['o'].step").is_module_attribute
    assert not parse_source("L['self']").is_module_attribute
    assert parse_source("L['x']._base").is_view_base
    assert parse_source("L['___stack1'][0]").is_resume_stack
    assert not parse_source("G['___stack1']").is_resume_stack
    assert parse_source("G['T'].x").is_global
    assert parse_source("___from_numpy(L['frame'])").root_name == "frame"
    assert str(parse_source("___from_numpy(L['frame'])").parent()) == "L['frame']"
    assert parse_source("L['x']").parent() is None


def test_depth_is_limited() -> None:
    """Sources inside of sources are followed only so far."""
    name = "type(" * 10_000 + "L['x']" + ")" * 10_000
    assert parse_source(name) == Source(Other(name))
    name = "type(" * 30 + "L['x']" + ")" * 30
    assert parse_source(name).is_known


_names = st.text() | st.sampled_from(
    ["a'b", 'a"b', "a]b", "a, b", "a.b", "\\", "\n", "L['x']", "é"]
)
_keys: st.SearchStrategy[Key] = (
    _names | st.integers() | st.sampled_from([Verbatim("True"), Verbatim("(1, ']')")])
)
_roots = st.builds(Local, _names) | st.builds(Global, _names)
_steps = st.lists(
    st.builds(Attribute, _names)
    | st.builds(Item, _keys)
    | st.builds(Called, st.sampled_from(["", "None", "'a)'"])),
    max_size=5,
).map(tuple)
_plain_sources = st.builds(Source, _roots, _steps)
_sources = _plain_sources | st.builds(
    Source,
    st.builds(
        Applied,
        st.sampled_from(["___from_numpy", "dict.__getitem__", "list", "type"]),
        _plain_sources,
        st.lists(_keys.filter(lambda key: not isinstance(key, Verbatim)), max_size=2).map(tuple),
    ),
    _steps,
)


@given(_sources)
def test_round_trip(source: Source) -> None:
    """Torch's name of a source gives the source again, whatever the keys are."""
    assert parse_source(str(source)) == source
    assert parse_leaf(str(source)) == leaf_of(source)


@given(_plain_sources, st.integers())
def test_round_trip_of_leaves(source: Source, dim: int) -> None:
    """Sizes, strides and offsets come back from their names."""
    for leaf in (SizeSource(source, dim), StrideSource(source, dim), StorageOffset(source)):
        assert parse_leaf(str(leaf)) == leaf


@given(st.text())
def test_any_text(text: str) -> None:
    """Any text gives a source, whose name is stable."""
    for stripped in (True, False, None):
        source = parse_source(text, stripped=stripped)
        assert parse_source(str(source)) == source
        assert isinstance(source.short, str)


@given(st.sampled_from(NAMES), st.integers(0, 80), st.integers(0, 5), st.text(max_size=4))
def test_damaged_names(name: str, position: int, length: int, inserted: str) -> None:
    """A damaged name gives a source, and no exception."""
    text = name[:position] + inserted + name[position + length :]
    for stripped in (True, False, None):
        assert isinstance(parse_leaf(text, stripped=stripped), object)
