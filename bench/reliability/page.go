//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// page is the published page.
type page struct {
	results []result
	full    []row // all rows at full scale, to report rows that were left out or shortened
}

// load reads stored results; a missing file has none.
func load(path string) (p page, err error) {
	if path == "" {
		return p, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p.results)
	}
	if err != nil {
		return p, fmt.Errorf("read the results in %s: %w", path, err)
	}
	return p, nil
}

// add adds a result, replacing an earlier one of its row.
func (p *page) add(found result) {
	for i, r := range p.results {
		if r.Row.ID == found.Row.ID {
			p.results[i] = found
			return
		}
	}
	p.results = append(p.results, found)
}

// save writes the page and the stored results.
func (p page) save(o options) error {
	if o.keep != "" {
		text, err := json.MarshalIndent(p.results, "", "  ")
		if err == nil {
			err = os.WriteFile(o.keep, append(text, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return os.WriteFile(o.out, []byte(p.text()), 0o644)
}

func (p page) failed() int {
	n := 0
	for _, r := range p.results {
		if r.Failed != "" {
			n++
		}
	}
	return n
}

// text returns the page.
func (p page) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Reliability: the last run\n")
	line("`make reliability` wrote this page. SQLite, WAL, `synchronous=FULL`; Postgres where a row says so, `fsync` on. No failure in *n* independent trials means at most about 3/*n* a trial,")
	line("with 95 %% confidence. A row without *n* counts its trials itself and prints them below.\n")
	line("| row | what is attacked | n | failures | at most, a trial | took |")
	line("|---|---|---|---|---|---|")
	for _, r := range p.results {
		n, bound, failures := "", "", "0"
		if r.Row.N > 0 {
			n = fmt.Sprintf("%d %s", r.Row.N, r.Row.Trial)
			bound = fmt.Sprintf("%.2g", 3/float64(r.Row.N))
		}
		if r.Failed != "" {
			bound, failures = "", "**failed**"
		}
		line("| %s | %s | %s | %s | %s | %s |", r.Row.ID, r.Row.What, n, failures, bound, r.Took.Round(time.Second))
	}
	for _, gap := range p.missingRows() {
		line("\n%s", gap)
	}
	line("\n## What the rows printed")
	for _, r := range p.results {
		line("\n**%s** %s; %s\n", r.Row.ID, r.Date, r.Where)
		line("```text")
		line("%s", command(r.Row))
		for _, figure := range r.Figures {
			line("%s", figure)
		}
		line("```")
	}
	line("\n## Known failures\n")
	if p.failed() == 0 {
		line("None in these runs.")
	}
	for _, r := range p.results {
		if r.Failed != "" {
			line("**%s**: %s\n\n```text\n%s\n```", r.Row.ID, r.Failed, strings.TrimSpace(r.Tail))
		}
	}
	return b.String()
}

// missingRows returns which rows did not run, and which ran fewer trials than a full run.
func (p page) missingRows() (said []string) {
	var missing, short []string
	for _, want := range p.full {
		i := slices.IndexFunc(p.results, func(r result) bool { return r.Row.ID == want.ID })
		switch {
		case i < 0:
			missing = append(missing, want.ID)
		case p.results[i].Row.N < want.N:
			short = append(short, fmt.Sprintf("%s with %d of %d %s", want.ID, p.results[i].Row.N, want.N, want.Trial))
		}
	}
	if len(missing) > 0 {
		said = append(said, "**Not run**: "+strings.Join(missing, ", ")+".")
	}
	if len(short) > 0 {
		said = append(said, "**Not run in full**: "+strings.Join(short, "; ")+".")
	}
	return said
}

// command returns the command that repeats a row, without the folder of this run.
func command(r row) string {
	args := strings.Join(r.Args[1:], " ")
	name := r.Args[0]
	if strings.HasSuffix(name, "/perdure") {
		name = "perdure"
	}
	return strings.TrimSpace(strings.Join(r.Env, " ") + " " + name + " " + args)
}
