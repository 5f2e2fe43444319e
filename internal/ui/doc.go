// Package ui serves the web UI: its files, and the sign-in of browsers.
//
// It may import the root and internal/access. The one thing to know: the UI has no rights of its
// own. A browser keeps an API token in a cookie that no script can read. The handler puts the token
// into the header of a request to the API, which then decides as for any other client.
package ui
