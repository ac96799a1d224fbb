"""The fused chains of the lessons about fusion: what each computes, how each draws, and its kernels for a CPU and a GPU."""
