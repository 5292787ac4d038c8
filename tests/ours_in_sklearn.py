"""A pytest plugin: scikit-learn's modules find our LinearSVC and LinearSVR where theirs were."""


def pytest_configure(config):
    import sklearn.svm

    from dualsweep import LinearSVC, LinearSVR

    sklearn.svm.LinearSVC = LinearSVC
    sklearn.svm.LinearSVR = LinearSVR
