"""The session formats of pi and of omp, a fork of pi."""
