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
	"github.com/perdure/perdure/internal/cli/sprout"
)

type toolInit struct {
	Name    string `arg:"" help:"Of the tool and of the folder: small letters and digits, with a _ between words."`
	Class   string `help:"What may be done when nobody knows whether a call happened: pure, idempotent or at_most_once; perdure help effects says more." placeholder:"CLASS" enum:"pure,idempotent,at_most_once" default:"idempotent"`
	Replace string `help:"Build with this checkout of Perdure instead of a published version." placeholder:"DIR" type:"path"`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// sprouted is a folder with a tool in it.
type sprouted struct {
	Name   string   `json:"name"`
	Folder string   `json:"folder"`
	Files  []string `json:"files"`
	Next   string   `json:"next"` // what to type
}

// Run writes a tool and its crash test into a new folder (F4).
func (c *toolInit) Run(ctx context.Context, a *app) error {
	if err := c.suits(sprouted{}); err != nil {
		return err
	}
	tool := sprout.Tool{Name: c.Name, Class: perdure.EffectClass(c.Class), Version: a.Version.Version, Replace: c.Replace}
	files, err := tool.Files()
	if err != nil {
		return err
	}
	made := sprouted{Name: c.Name, Next: "cd " + c.Name + " && " + tool.Next()}
	for _, file := range files {
		made.Files = append(made.Files, file.Name)
	}
	if made.Folder, err = filepath.Abs(c.Name); err != nil {
		return fmt.Errorf("find the folder: %w", err)
	}
	if _, err := os.Lstat(made.Folder); !errors.Is(err, fs.ErrNotExist) {
		return &fault{err: perdure.Conflict, what: made.Folder + " is there already; nothing was written", todo: "remove it, or give the tool another name"}
	}
	if c.DryRun {
		a.say("would write %s into %s", strings.Join(made.Files, ", "), a.line(made.Folder, 300))
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
	a.say("%s has %s; to see it killed and coming back:\n  %s", a.line(made.Folder, 300), strings.Join(made.Files, ", "), made.Next)
	return c.quietly(ctx, a, made.Folder, made)
}
