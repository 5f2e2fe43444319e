package file

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the text that the model reads
	"encoding/json"
	"errors"
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
	maxMatches       = 1000
	defaultMatches   = 200
)

type grepFilesIn struct {
	Pattern     string `json:"pattern" minLength:"1" jsonschema:"Regular expression (RE2), matched against each line."`
	PathPattern string `json:"path_pattern,omitempty" jsonschema:"Glob, such as **/*.go or /src/**. Without a slash it is matched against the file name only."`
	MaxMatches  int    `json:"max_matches,omitempty" min:"1" max:"1000" default:"200"`
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

func grepFiles(ctx context.Context, in grepFilesIn, env tool.Env) (tool.FileMatches, error) {
	store, err := files(env, "grep_files")
	if err != nil {
		return tool.FileMatches{}, err
	}
	return Grep(ctx, store, tool.FileSearch{Pattern: in.Pattern, Glob: in.PathPattern, Max: in.MaxMatches})
}

// Grep searches files within the limits of grep_files: 5 MiB are searched, and files of more than
// 512 KiB are not. The result says what was left out. Files that are a [tool.Grepper] search
// themselves, and their result is shortened to the same length. Invalid: the pattern or the glob is
// not valid. Other errors are those of files.
func Grep(ctx context.Context, files tool.Files, in tool.FileSearch) (tool.FileMatches, error) {
	s, err := newSearch(&in)
	if err != nil {
		return tool.FileMatches{}, err
	}
	if own, ok := files.(tool.Grepper); ok {
		found, err := own.Grep(ctx, in)
		if !errors.Is(err, errors.ErrUnsupported) {
			return s.limited(found), err
		}
	}
	stats, err := files.List(ctx, in.Directory, true)
	if err != nil {
		return tool.FileMatches{}, err
	}
	for _, stat := range stats {
		if stat.IsDirectory || !s.wants(stat.Path) {
			continue
		}
		if ctx.Err() != nil {
			return tool.FileMatches{}, context.Cause(ctx)
		}
		s.file(ctx, files, stat)
		if s.full {
			break
		}
	}
	return s.result(), nil
}

// search is one execution of Grep.
type search struct {
	pattern *regexp.Regexp
	glob    string
	max     int // maximum number of matches
	scanned int64
	out     tool.FileMatches
	bytes   int // of matches and skips as JSON
	full    bool
	unnamed int // skipped files that are only counted
}

// newSearch checks a search and fills in its defaults.
func newSearch(in *tool.FileSearch) (*search, error) {
	if len(in.Pattern) > maxPatternBytes {
		return nil, invalidSearch("it is longer than %d bytes", maxPatternBytes)
	}
	pattern, err := regexp.Compile(in.Pattern)
	if err == nil && in.IgnoreCase {
		pattern, err = regexp.Compile("(?i)" + in.Pattern)
	}
	if err != nil {
		return nil, invalidSearch("%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	glob := strings.TrimPrefix(in.Glob, "/")
	if len(glob) > maxPatternBytes || !doublestar.ValidatePattern(glob) {
		return nil, invalidSearch("path_pattern is not a valid glob")
	}
	in.Directory = cmp.Or(in.Directory, "/")
	if in.Max <= 0 {
		in.Max = defaultMatches
	}
	in.Max = min(in.Max, maxMatches)
	if in.Glob != "" && !strings.Contains(in.Glob, "/") {
		glob = "**/" + glob
	}
	return &search{
		pattern: pattern, glob: glob, max: in.Max,
		out: tool.FileMatches{Matches: []tool.FileMatch{}, Skipped: []tool.FileSkip{}},
	}, nil
}

func invalidSearch(format string, args ...any) error {
	return &tool.FileError{Kind: perdure.Invalid, Text: fmt.Sprintf("Invalid pattern: "+format, args...)}
}

// limited returns the result of a search that the files did themselves, within the limits.
func (s *search) limited(found tool.FileMatches) tool.FileMatches {
	for _, m := range found.Matches {
		if !s.match(m.Path, m.LineNumber, []byte(m.Line)) {
			break
		}
	}
	for _, skipped := range found.Skipped {
		s.skip(skipped.Path, skipped.Reason)
	}
	s.out.Truncated = s.out.Truncated || found.Truncated
	return s.result()
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
	m := tool.FileMatch{Path: name, LineNumber: number, Line: shorten(string(line))}
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
	skipped := tool.FileSkip{Path: name, Reason: reason}
	if len(s.out.Skipped) == maxGrepSkips || !s.fits(skipped) {
		s.unnamed++
		return
	}
	s.out.Skipped = append(s.out.Skipped, skipped)
}

func (s *search) result() tool.FileMatches {
	if s.unnamed > 0 {
		s.out.Skipped = append(s.out.Skipped, tool.FileSkip{Path: "…", Reason: fmt.Sprintf("%d more files", s.unnamed)})
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
