import signal

collect_ignore_glob = ["fuzz*.py", "mutation/*"]  # no tests; they need atheris and cosmic-ray

# A shell's background job ignores Ctrl-C, and so would everything that the tests send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
