package file

import (
	"context"
	_ "embed" // the text that the model reads

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed stat_file.md
var statFileText string

type statFileIn struct {
	Path string `json:"path" jsonschema:"Absolute path of a file or directory."`
}

// StatFile returns the tool that describes a file or directory.
func StatFile() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "stat_file",
		DisplayName: "Stat File",
		Narration:   tool.Narration{Started: "Looking at {path}", Completed: "Looked at {path}", Failed: "Could not look at {path}"},
		Description: described(statFileText),
		Class:       perdure.Pure,
		SessionOnly: true,
		Hints:       tool.Hints{ReadOnly: ptrTrue(), Idempotent: ptrTrue()},
	}, func(ctx context.Context, in statFileIn, env tool.Env) (tool.FileStat, error) {
		store, err := files(env, "stat_file")
		if err != nil {
			return tool.FileStat{}, err
		}
		return store.Stat(ctx, in.Path)
	})
}
