"""A pytest plugin: scikit-learn's modules find our LinearSVC where theirs was."""


def pytest_configure(config):
    import sklearn.svm

    from dualsweep import LinearSVC

    sklearn.svm.LinearSVC = LinearSVC
