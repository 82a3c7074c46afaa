package event

// What says what happened, for people: [Line.Text] without its time, type and ids.
func (l Line) What() string {
	_, _, what := l.describe()
	return what
}
