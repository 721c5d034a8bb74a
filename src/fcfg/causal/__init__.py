"""The causal question: attributes, graph, interventions, and the model of the attributes."""
