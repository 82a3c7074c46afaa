def word():
    return "early"
