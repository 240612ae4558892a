"""Names of sources as torch could write them, the odd ones above all."""

from hypothesis import strategies as st

from recompile_doctor.model.source import Attribute, Item, Local, Source

# What matters in lists, regular expressions and shells.
ODD = " ,:.*+?()[]{}|^$\\/'\"`!#&;<>=~%@-_0123456789azAZ\t\n\r\0é中\u00a0\u2028\U0001f600"
TEXT = st.text(st.sampled_from(ODD), min_size=0, max_size=8)
KEYS = st.one_of(TEXT, st.integers(0, 99))
STEPS = st.one_of(
    st.builds(Item, KEYS),
    st.builds(Attribute, st.sampled_from(["t", "size", "_base", "größe", "a1"])),
    st.builds(Attribute, TEXT.filter(bool)),
)
SOURCES = st.builds(
    Source,
    st.builds(Local, st.sampled_from(["x", "x1", "self", "___stack0", "größe", "args"])),
    st.lists(STEPS, max_size=3).map(tuple),
).map(str)
HOSTILE = (
    "L['x']",
    "L['kw']['x,y']",
    "L['kw']['z-a']",
    "L['kw']['a b']",
    "L['parts']['aux/kl, scaled']",
    "L['d']['a:3']",
    "L['d'][':0']",
    "L['fn']._modules['0']._forward_hooks[list(dict.keys(L['fn']._modules['0']."
    "_forward_hooks))[0]].seen",
    "L['d'][\"it's\"]",
    "L['d']['[[a]']",
    "L['d']['(?P<x>']",
    "L['d']['$HOME`id`\\\\']",
    "L['d']['\\n']",
    "getattr(L['x'], 'a:3')",
    "___from_numpy(L['frame'])",
    "G['T']",
    "L['x'].size",
    "L['größe']",
)
