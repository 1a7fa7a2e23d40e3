"""Constants of counts, sums and quantiles by cell."""
