package file

import (
	"context"
	_ "embed" // the text that the model reads
	"errors"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed edit_file.md
var editFileText string

type editFileIn struct {
	Path       string `json:"path" jsonschema:"Absolute path, such as /notes/today.md."`
	OldText    string `json:"old_text" minLength:"1" jsonschema:"The text to replace, exactly as it appears in the file."`
	NewText    string `json:"new_text" jsonschema:"The replacement text."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"Replace every occurrence. Otherwise old_text must occur exactly once."`
}

type editFileOut struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
}

// editTool is edit_file. Its class is at most once, because a second run may find the old text
// again in what the first one wrote.
type editTool struct{ tool.Tool }

var _ tool.Reconciler = editTool{}

// EditFile returns the tool that replaces text in a file.
func EditFile() tool.Tool {
	return editTool{tool.New(tool.Spec{
		Name:        "edit_file",
		DisplayName: "Edit File",
		Narration:   tool.Narration{Started: "Editing {path}", Completed: "Edited {path}", Failed: "Could not edit {path}"},
		Description: described(editFileText),
		Class:       perdure.AtMostOnce,
		Concurrency: workspace,
		Hints:       tool.Hints{Destructive: ptrTrue(), OpenWorld: new(bool)},
	}, editFile)}
}

func editFile(ctx context.Context, in editFileIn, env tool.Env) (editFileOut, error) {
	store, err := files(env, "edit_file")
	if err != nil {
		return editFileOut{}, err
	}
	f, err := store.Read(ctx, in.Path)
	if err != nil {
		return editFileOut{}, err
	}
	if in.OldText == "" { // the schema forbids it, too; an empty text occurs everywhere
		return editFileOut{}, tool.Errorf("old_text is empty. Use write_file to write a whole file.")
	}
	content := string(f.Content)
	count := strings.Count(content, in.OldText)
	switch {
	case count == 0:
		return editFileOut{}, tool.Errorf("old_text not found in %s", f.Path)
	case count > 1 && !in.ReplaceAll:
		return editFileOut{}, tool.Errorf("old_text occurs %d times in %s. Add context or set replace_all.", count, f.Path)
	}
	_, err = store.Write(ctx, tool.FileWrite{
		Path:      f.Path,
		Content:   []byte(strings.ReplaceAll(content, in.OldText, in.NewText)),
		IfContent: &f.Content,
	})
	return editFileOut{Path: f.Path, Replacements: count}, err
}

// Reconcile finds out from the file whether an earlier run took effect. It happened if the new text
// is there and, apart from it, the old text is not. It did not happen if the old text is there and
// the new one is not. Otherwise it cannot tell, for instance if text was deleted or the file no
// longer exists.
func (editTool) Reconcile(ctx context.Context, call tool.Call, env tool.Env) (tool.Reconciled, error) {
	in, err := tool.Decode[editFileIn](call)
	if err != nil {
		return tool.Reconciled{}, err
	}
	store, err := files(env, "edit_file")
	if err != nil {
		return tool.Reconciled{}, err
	}
	f, err := store.Read(ctx, in.Path)
	if errors.Is(err, perdure.NotFound) {
		return tool.Reconciled{}, nil
	}
	if err != nil || in.NewText == "" || in.NewText == in.OldText {
		return tool.Reconciled{}, err
	}
	content := string(f.Content)
	written := strings.Count(content, in.NewText)
	// The new text may contain the old one.
	left := strings.Contains(strings.ReplaceAll(content, in.NewText, "\x00"), in.OldText)
	switch {
	case written > 0 && !left:
		return tool.Reconciled{Happened: true, Result: tool.Success(editFileOut{Path: f.Path, Replacements: written})}, nil
	case written == 0 && left:
		return tool.Reconciled{DidNotHappen: true}, nil
	}
	return tool.Reconciled{}, nil
}
