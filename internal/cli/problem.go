package cli

import (
	"errors"
	"regexp"
	"strings"

	"github.com/perdure/perdure/docs"
)

// problemsPage explains the problem codes of a server, one section each.
const problemsPage = "reference/problems.md"

// hasPage returns the documentation of a problem code, formatted for a terminal.
func hasPage(code string) (text string, ok bool) {
	page, err := docs.Files.ReadFile(problemsPage)
	if err != nil || !regexp.MustCompile(`^[a-z_]+$`).MatchString(code) {
		return "", false
	}
	_, section, ok := strings.Cut(string(page), "\n## "+code+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	section = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(section, "$1")
	return code + "\n\n" + strings.TrimSpace(strings.ReplaceAll(section, "**", "")), ok
}

// page returns where the problem of a server is explained: a page of that server, or a help topic.
// Empty: no page says more than the advice.
func (a *app) page(err error) string {
	var asked interface { // an error of a remote server
		Page() string // a URL; empty: none that opens
		Kind() string // the code
	}
	if !errors.As(err, &asked) {
		return ""
	}
	if url := asked.Page(); url != "" {
		return url
	}
	if _, ok := hasPage(asked.Kind()); ok {
		return program + " help " + asked.Kind()
	}
	return ""
}
