package cli

import (
	"errors"
	"regexp"
	"strings"

	"github.com/perdure/perdure/docs"
)

// problemsPage explains the kinds of problems that a server answers, a section each.
const problemsPage = "reference/problems.md"

// explains returns what the documents say about a kind of problem, by its code, for a terminal.
func explains(code string) (text string, ok bool) {
	page, err := docs.Files.ReadFile(problemsPage)
	if err != nil || !regexp.MustCompile(`^[a-z_]+$`).MatchString(code) {
		return "", false
	}
	_, section, ok := strings.Cut(string(page), "\n## "+code+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	section = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(section, "$1")
	return code + "\n\n" + strings.TrimSpace(strings.ReplaceAll(section, "**", "")), ok
}

// page is where an error is explained (C14): on the server that answered it, or in this program's help. Empty: the advice says it.
func (a *app) page(err error, advice string) string {
	var asked interface { // of whoever answers from afar
		Page() string // a URL; empty: none that opens
		Kind() string // the code
	}
	if errors.As(err, &asked) {
		if url := asked.Page(); url != "" {
			return url
		}
		if _, ok := explains(asked.Kind()); ok {
			return program + " help " + asked.Kind()
		}
	}
	if strings.Contains(advice, "--help") || strings.Contains(advice, program+" help ") {
		return ""
	}
	return program + " help exit-codes"
}
