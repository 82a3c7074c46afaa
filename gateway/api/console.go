package api

// PathConsoleOpen is a path of the operators' door: {} -> ConsoleOpened.
const PathConsoleOpen = "console/open"

// ConsoleOpened is where one new tab of the web console begins. The token in its fragment works once, for ten minutes.
type ConsoleOpened struct {
	URL string `json:"url"`
}
