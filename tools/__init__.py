"""What the tests, the benchmarks and the makers of bundled data share. The app itself imports nothing from here."""
