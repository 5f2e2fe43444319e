package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/scaffold"
)

type toolInit struct {
	Name    string `arg:"" help:"Name of the tool and its folder: lower-case letters and digits, words separated by _."`
	Class   string `help:"Effect class, for crash recovery: pure, idempotent or at_most_once (see perdure help effects)." placeholder:"CLASS" enum:"pure,idempotent,at_most_once" default:"idempotent"`
	Replace string `help:"Build with this checkout of Perdure instead of a published version." placeholder:"DIR" type:"path"`
	actFlags
}

// scaffolded is a folder with a new tool.
type scaffolded struct {
	Name   string   `json:"name"`
	Folder string   `json:"folder"`
	Files  []string `json:"files"`
	Next   string   `json:"next"` // commands to type
}

// Run writes a tool and its crash test into a new folder.
func (c *toolInit) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(scaffolded{}); err != nil {
		return err
	}
	tool := scaffold.Tool{Name: c.Name, Class: perdure.EffectClass(c.Class), Version: a.Version.Version,
		Replace: c.Replace}
	files, err := tool.Files()
	if err != nil {
		return err
	}
	made := scaffolded{Name: c.Name, Next: "cd " + c.Name + " && " + tool.Next()}
	for _, file := range files {
		made.Files = append(made.Files, file.Name)
	}
	if made.Folder, err = filepath.Abs(c.Name); err != nil {
		return fmt.Errorf("find the folder: %w", err)
	}
	if _, err := os.Lstat(made.Folder); !errors.Is(err, fs.ErrNotExist) {
		return &userError{err: perdure.Conflict, message: made.Folder + " already exists; nothing was written",
			hint: "remove it, or choose another name"}
	}
	if c.DryRun {
		a.message("would write %s to %s", strings.Join(made.Files, ", "), a.oneLine(made.Folder, 300))
		return nil
	}
	err = os.Mkdir(made.Folder, 0o755)
	for _, file := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(made.Folder, file.Name), []byte(file.Text), 0o644)
		}
	}
	if err != nil {
		return fmt.Errorf("write the tool: %w", err)
	}
	a.message("%s contains %s; run the crash test with:\n  %s", a.oneLine(made.Folder, 300), strings.Join(made.Files, ", "),
		made.Next)
	return c.showForPrograms(ctx, a, made.Folder, made)
}
