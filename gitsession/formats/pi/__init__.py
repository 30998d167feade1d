"""The sessions of pi and of omp, a fork of pi."""
