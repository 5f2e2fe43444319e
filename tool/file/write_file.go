package file

import (
	"context"
	_ "embed" // the text that the model reads

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed write_file.md
var writeFileText string

type writeFileIn struct {
	Path     string `json:"path" jsonschema:"Absolute path, such as /notes/today.md."`
	Content  string `json:"content" jsonschema:"The complete content."`
	Encoding string `json:"encoding,omitempty" enum:"text,base64" default:"text" jsonschema:"The encoding of content in this call."`
}

type writeFileOut struct {
	Path      string `json:"path"`
	SizeBytes int    `json:"size_bytes"`
	Created   bool   `json:"created" jsonschema:"True if the file did not exist before."`
}

// WriteFile returns the tool that writes a whole file.
func WriteFile() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "write_file",
		DisplayName: "Write File",
		Narration:   tool.Narration{Started: "Writing {path}", Completed: "Wrote {path}", Failed: "Could not write {path}"},
		Description: described(writeFileText),
		Class:       perdure.Idempotent,
		Trusted:     true,
		Concurrency: workspace,
		Hints:       tool.Hints{Idempotent: ptrTrue(), Destructive: ptrTrue(), OpenWorld: new(bool)},
	}, writeFile)
}

func writeFile(ctx context.Context, in writeFileIn, env tool.Env) (writeFileOut, error) {
	store, err := files(env, "write_file")
	if err != nil {
		return writeFileOut{}, err
	}
	path, err := tool.CleanPath(in.Path)
	if err != nil {
		return writeFileOut{}, err
	}
	content, err := tool.DecodeContent(in.Content, in.Encoding)
	if err != nil {
		return writeFileOut{}, err
	}
	created, err := store.Write(ctx, tool.FileWrite{Path: path, Content: content})
	return writeFileOut{Path: path, SizeBytes: len(content), Created: created}, err
}
