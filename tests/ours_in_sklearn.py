"""A pytest plugin: scikit-learn's modules find our estimators where theirs were."""


def pytest_configure(config):
    import sklearn.linear_model
    import sklearn.svm

    import dualsweep

    for module, names in {
        sklearn.svm: ("LinearSVC", "LinearSVR"),
        sklearn.linear_model: ("LogisticRegression",),
    }.items():
        for name in names:
            setattr(module, name, getattr(dualsweep, name))
