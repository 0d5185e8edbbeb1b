"""The limit of tests on processes that they start."""

# It ends a test that hangs, and says nothing about speed: a test that compiles fifty programs takes 13 s alone, and
# minutes on a busy machine.
HANG_SECONDS = 1200
