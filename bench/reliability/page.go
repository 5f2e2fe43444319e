//go:build unix

package main

import (
	"fmt"
	"strings"
	"time"
)

// page is what is published.
type page struct {
	scale   string
	seed    int64
	begun   time.Time
	machine string
	results []result
}

func (p page) failed() int {
	n := 0
	for _, r := range p.results {
		if r.err != nil {
			n++
		}
	}
	return n
}

// text writes the page.
func (p page) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Reliability: the last run\n")
	line("`make reliability` wrote this page: %s, scale %s, seed %d; %s. SQLite, WAL, `synchronous=FULL`.\n", p.begun.Format(time.DateOnly), p.scale, p.seed, p.machine)
	line("No failure in *n* independent trials means at most about 3/*n* a trial, with 95 %% confidence. A row without *n* counts its trials itself and")
	line("prints them below.\n")
	line("| row | what is attacked | n | failures | at most, a trial | took |")
	line("|---|---|---|---|---|---|")
	for _, r := range p.results {
		n, bound, failures := "", "", "0"
		if r.row.n > 0 {
			n = fmt.Sprintf("%d %s", r.row.n, r.row.trial)
			bound = fmt.Sprintf("%.2g", 3/float64(r.row.n))
		}
		if r.err != nil {
			bound, failures = "", "**failed**"
		}
		line("| %s | %s | %s | %s | %s | %s |", r.row.id, r.row.what, n, failures, bound, r.took.Round(time.Second))
	}
	line("\n## What the rows printed")
	for _, r := range p.results {
		line("\n**%s** `%s`\n", r.row.id, command(r.row))
		line("```text")
		for _, figure := range r.figures {
			line("%s", figure)
		}
		line("```")
	}
	line("\n## Known failures\n")
	if p.failed() == 0 {
		line("None in this run.")
	}
	for _, r := range p.results {
		if r.err != nil {
			line("**%s**: %v\n\n```text\n%s\n```", r.row.id, r.err, strings.TrimSpace(r.tail))
		}
	}
	return b.String()
}

// command is the line that repeats a row, without the folder of this run.
func command(r row) string {
	args := strings.Join(r.args[1:], " ")
	name := r.args[0]
	if strings.HasSuffix(name, "/perdure") {
		name = "perdure"
	}
	return strings.TrimSpace(strings.Join(r.env, " ") + " " + name + " " + args)
}
