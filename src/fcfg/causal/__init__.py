"""The causal question (Sec. 2): attributes and their graph, which need no torch.

The causal model over them is :class:`fcfg.StructuralCausalModel`.
"""

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.causal.graph import CausalGraph, Partition

__all__ = ["AttributeSpace", "Binary", "Categorical", "CausalGraph", "Continuous", "Partition"]
