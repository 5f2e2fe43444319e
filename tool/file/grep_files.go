package file

import (
	"bytes"
	"context"
	_ "embed" // the text that the model reads
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed grep_files.md
var grepFilesText string

// The limits of a search (FI8, TL29).
const (
	maxPatternBytes  = 1000
	maxGrepFileBytes = 512 << 10
	maxGrepScanBytes = 5 << 20
	// Of matches and skips as JSON; the remainder is for the rest of the result.
	maxGrepOutBytes  = 64<<10 - 256
	maxGrepLineBytes = 1000 // shown of one line
	maxGrepSkips     = 100  // skipped files that are listed; further ones are counted
)

type grepFilesIn struct {
	Pattern     string `json:"pattern" minLength:"1" jsonschema:"Regular expression (RE2), matched against each line."`
	PathPattern string `json:"path_pattern,omitempty" jsonschema:"Glob, such as **/*.go or /src/**. Without a slash it is matched against the file name only."`
	MaxMatches  int    `json:"max_matches,omitempty" min:"1" max:"1000" default:"200"`
}

type grepMatch struct {
	Path       string `json:"path"`
	LineNumber int    `json:"line_number"`
	Line       string `json:"line"`
}

type grepSkip struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

type grepFilesOut struct {
	Matches   []grepMatch `json:"matches"`
	Truncated bool        `json:"truncated" jsonschema:"True if there may be more matches."`
	Skipped   []grepSkip  `json:"skipped" jsonschema:"Files that were not searched, with the reason."`
}

// GrepFiles returns the tool that searches files for a pattern.
func GrepFiles() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "grep_files",
		DisplayName: "Grep Files",
		Narration:   tool.Narration{Started: "Searching files for {pattern}", Completed: "Searched files for {pattern}[: {result.matches} lines match]", Failed: "Could not search files for {pattern}"},
		Description: described(grepFilesText),
		Class:       perdure.Pure,
		SessionOnly: true,
		Hints:       tool.Hints{ReadOnly: ptrTrue(), Idempotent: ptrTrue()},
	}, grepFiles)
}

func grepFiles(ctx context.Context, in grepFilesIn, env tool.Env) (grepFilesOut, error) {
	store, err := files(env, "grep_files")
	if err != nil {
		return grepFilesOut{}, err
	}
	s, err := newSearch(in)
	if err != nil {
		return grepFilesOut{}, err
	}
	stats, err := store.List(ctx, "/", true)
	if err != nil {
		return grepFilesOut{}, err
	}
	for _, stat := range stats {
		if stat.IsDirectory || !s.wants(stat.Path) {
			continue
		}
		if ctx.Err() != nil {
			return grepFilesOut{}, context.Cause(ctx)
		}
		s.file(ctx, store, stat)
		if s.full {
			break
		}
	}
	return s.result(), nil
}

// search is one execution of grep_files.
type search struct {
	pattern *regexp.Regexp
	glob    string
	max     int // maximum number of matches
	scanned int64
	out     grepFilesOut
	bytes   int // of matches and skips as JSON
	full    bool
	unnamed int // skipped files that are only counted
}

func newSearch(in grepFilesIn) (*search, error) {
	if len(in.Pattern) > maxPatternBytes {
		return nil, tool.Errorf("Invalid pattern: it is longer than %d bytes", maxPatternBytes)
	}
	pattern, err := regexp.Compile(in.Pattern)
	if err != nil {
		return nil, tool.Errorf("Invalid pattern: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	glob := strings.TrimPrefix(in.PathPattern, "/")
	if len(glob) > maxPatternBytes || !doublestar.ValidatePattern(glob) {
		return nil, tool.Errorf("Invalid pattern: path_pattern is not a valid glob")
	}
	if in.MaxMatches <= 0 {
		in.MaxMatches = 200
	}
	if in.PathPattern != "" && !strings.Contains(in.PathPattern, "/") {
		glob = "**/" + glob
	}
	return &search{
		pattern: pattern, glob: glob, max: in.MaxMatches,
		out: grepFilesOut{Matches: []grepMatch{}, Skipped: []grepSkip{}},
	}, nil
}

func (s *search) wants(name string) bool {
	return s.glob == "" || doublestar.MatchUnvalidated(s.glob, strings.TrimPrefix(name, "/"))
}

// file searches one file, or records why it was skipped.
func (s *search) file(ctx context.Context, store tool.Files, stat tool.FileStat) {
	switch {
	case stat.SizeBytes > maxGrepFileBytes:
		s.skip(stat.Path, fmt.Sprintf("larger than %d KiB", maxGrepFileBytes>>10))
		return
	case s.scanned+stat.SizeBytes > maxGrepScanBytes:
		s.out.Truncated = true
		s.skip(stat.Path, fmt.Sprintf("the limit of %d MiB searched was reached", maxGrepScanBytes>>20))
		return
	}
	f, err := store.Read(ctx, stat.Path)
	if err != nil {
		s.skip(stat.Path, "cannot be read")
		return
	}
	s.scanned += int64(len(f.Content))
	if _, encoding := tool.EncodeContent(f.Content); encoding != tool.EncodingText {
		s.skip(stat.Path, "not text")
		return
	}
	number := 0
	for line := range bytes.Lines(f.Content) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if s.pattern.Match(line) && !s.match(stat.Path, number, line) {
			return
		}
	}
}

// match adds a match, and reports whether there is space for more.
func (s *search) match(name string, number int, line []byte) bool {
	m := grepMatch{Path: name, LineNumber: number, Line: shorten(string(line))}
	if len(s.out.Matches) == s.max || !s.fits(m) {
		s.full, s.out.Truncated = true, true
		return false
	}
	s.out.Matches = append(s.out.Matches, m)
	return true
}

// fits reports whether a match or skip fits into the result, and counts it if it does.
func (s *search) fits(entry any) bool {
	text, err := json.Marshal(entry)
	if err != nil || s.bytes+len(text)+1 > maxGrepOutBytes {
		return false
	}
	s.bytes += len(text) + 1
	return true
}

func (s *search) skip(name, reason string) {
	skipped := grepSkip{Path: name, Reason: reason}
	if len(s.out.Skipped) == maxGrepSkips || !s.fits(skipped) {
		s.unnamed++
		return
	}
	s.out.Skipped = append(s.out.Skipped, skipped)
}

func (s *search) result() grepFilesOut {
	if s.unnamed > 0 {
		s.out.Skipped = append(s.out.Skipped, grepSkip{Path: "…", Reason: fmt.Sprintf("%d more files", s.unnamed)})
	}
	return s.out
}

// shorten cuts a long line at a rune boundary.
func shorten(line string) string {
	if len(line) <= maxGrepLineBytes {
		return line
	}
	n := maxGrepLineBytes
	for n > 0 && !utf8.RuneStart(line[n]) {
		n--
	}
	return line[:n] + "…"
}
