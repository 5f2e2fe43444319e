package file

import (
	"context"
	_ "embed" // the text that the model reads
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed read_file.md
var readFileText string

type readFileIn struct {
	Path   string `json:"path" jsonschema:"Absolute path, such as /notes/today.md."`
	Offset int    `json:"offset,omitempty" min:"1" default:"1" jsonschema:"The first line to return, from 1."`
	Limit  int    `json:"limit,omitempty" min:"1" max:"100000" default:"2000" jsonschema:"The maximum number of lines to return."`
}

type readFileOut struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding" enum:"text,base64"`
	SizeBytes  int64  `json:"size_bytes"`
	TotalLines int    `json:"total_lines"`
	Truncated  bool   `json:"truncated" jsonschema:"True if more lines follow."`
	NextOffset int    `json:"next_offset,omitempty" jsonschema:"The line to continue from."`
}

// ReadFile returns the tool that reads a file by lines. Binary content is returned whole, in
// base64.
func ReadFile() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "read_file",
		DisplayName: "Read File",
		Narration:   tool.Narration{Started: "Reading {path}", Completed: "Read {path}", Failed: "Could not read {path}"},
		Description: described(readFileText),
		Class:       perdure.Pure,
		SessionOnly: true,
		Hints:       tool.Hints{ReadOnly: ptrTrue(), Idempotent: ptrTrue()},
	}, readFile)
}

func readFile(ctx context.Context, in readFileIn, env tool.Env) (readFileOut, error) {
	store, err := files(env, "read_file")
	if err != nil {
		return readFileOut{}, err
	}
	f, err := store.Read(ctx, in.Path)
	if err != nil {
		return readFileOut{}, err
	}
	out := readFileOut{Path: f.Path, SizeBytes: int64(len(f.Content))}
	out.Content, out.Encoding = tool.EncodeContent(f.Content)
	if out.Encoding == tool.EncodingText {
		out.page(max(in.Offset, 1), max(in.Limit, 1))
	}
	return out, nil
}

// page cuts the content to limit lines, starting at line offset, from 1. Lines keep their ends.
func (o *readFileOut) page(offset, limit int) {
	lines := strings.SplitAfter(o.Content, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1] // there is no line after the last line end
	}
	o.TotalLines = len(lines)
	first := min(offset-1, len(lines))
	last := min(first+limit, len(lines))
	o.Content = strings.Join(lines[first:last], "")
	if last < len(lines) {
		o.Truncated, o.NextOffset = true, last+1
	}
}
