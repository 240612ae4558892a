"""The rules in the order in which they are asked; the last explains what no other does."""

from recompile_doctor.diagnosis.rule import Rule
from recompile_doctor.diagnosis.rules.aliasing_change import AliasingChange
from recompile_doctor.diagnosis.rules.backend_change import BackendChange
from recompile_doctor.diagnosis.rules.cold_cache_entry import ColdCacheEntry
from recompile_doctor.diagnosis.rules.constant_value_change import ConstantValueChange
from recompile_doctor.diagnosis.rules.container_keys_change import ContainerKeysChange
from recompile_doctor.diagnosis.rules.container_length_change import ContainerLengthChange
from recompile_doctor.diagnosis.rules.cudagraph_rerecord import CudagraphRerecord
from recompile_doctor.diagnosis.rules.data_dependent_branch import DataDependentBranch
from recompile_doctor.diagnosis.rules.data_dependent_guard import DataDependentGuard
from recompile_doctor.diagnosis.rules.data_dependent_scalar import DataDependentScalar
from recompile_doctor.diagnosis.rules.data_dependent_shape import DataDependentShape
from recompile_doctor.diagnosis.rules.dim_marking_change import DimMarkingChange
from recompile_doctor.diagnosis.rules.divisibility_guard import DivisibilityGuard
from recompile_doctor.diagnosis.rules.equal_sizes_guard import EqualSizesGuard
from recompile_doctor.diagnosis.rules.float_value_change import FloatValueChange
from recompile_doctor.diagnosis.rules.global_state_change import GlobalStateChange
from recompile_doctor.diagnosis.rules.graph_break import GraphBreak
from recompile_doctor.diagnosis.rules.int_value_change import IntValueChange
from recompile_doctor.diagnosis.rules.module_attribute_change import ModuleAttributeChange
from recompile_doctor.diagnosis.rules.object_identity_change import ObjectIdentityChange
from recompile_doctor.diagnosis.rules.parameter_shape_change import ParameterShapeChange
from recompile_doctor.diagnosis.rules.pinned_dimension import PinnedDimension
from recompile_doctor.diagnosis.rules.range_guard import RangeGuard
from recompile_doctor.diagnosis.rules.rank_change import RankChange
from recompile_doctor.diagnosis.rules.rank_divergence import RankDivergence
from recompile_doctor.diagnosis.rules.recompile_limit_hit import RecompileLimitHit
from recompile_doctor.diagnosis.rules.resume_function_churn import ResumeFunctionChurn
from recompile_doctor.diagnosis.rules.stride_change import StrideChange
from recompile_doctor.diagnosis.rules.tensor_property_change import TensorPropertyChange
from recompile_doctor.diagnosis.rules.type_change import TypeChange
from recompile_doctor.diagnosis.rules.unattributed_recompile import UnattributedRecompile
from recompile_doctor.diagnosis.rules.unmarked_dynamic_dim import UnmarkedDynamicDim
from recompile_doctor.diagnosis.rules.violated_dynamic_mark import ViolatedDynamicMark
from recompile_doctor.diagnosis.rules.zero_one_specialization import ZeroOneSpecialization

ALL_RULES: tuple[type[Rule], ...] = (
    ZeroOneSpecialization,
    UnmarkedDynamicDim,
    PinnedDimension,
    EqualSizesGuard,
    DivisibilityGuard,
    RangeGuard,
    RankChange,
    StrideChange,
    TensorPropertyChange,
    ParameterShapeChange,
    IntValueChange,
    FloatValueChange,
    ConstantValueChange,
    ModuleAttributeChange,
    ContainerLengthChange,
    ContainerKeysChange,
    ObjectIdentityChange,
    TypeChange,
    BackendChange,
    GlobalStateChange,
    AliasingChange,
    DimMarkingChange,
    RecompileLimitHit,
    DataDependentScalar,
    DataDependentShape,
    DataDependentBranch,
    DataDependentGuard,
    GraphBreak,
    ViolatedDynamicMark,
    ResumeFunctionChurn,
    RankDivergence,
    CudagraphRerecord,
    ColdCacheEntry,
    UnattributedRecompile,
)


def find_rule(rule_id: str) -> type[Rule] | None:
    """Return the rule with this id, or None when there is none."""
    return next((rule for rule in ALL_RULES if rule.id == rule_id), None)
