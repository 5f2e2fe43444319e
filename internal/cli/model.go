package cli

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type modelCommand struct {
	List    modelList    `cmd:"" aliases:"ls" help:"List the models that are known by name: the default models. Providers may have more."`
	Default modelDefault `cmd:"" help:"Show, set or remove the model of sessions that name none."`
}

type modelList struct{ outputFlags }

// Run lists models.
func (c *modelList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Providers().Models(ctx)
		if err != nil {
			return err
		}
		return outputList[engine.Model]{
			noun: "models", head: []string{"MODEL", "PROVIDER", "DEFAULT", "SOURCE"},
			name: func(one engine.Model) string { return one.Name },
			row: func(one engine.Model) []cell {
				return []cell{{one.Name, bold}, {text: one.Provider}, {text: yesNo(one.Default)}, {text: one.Source}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

type modelDefault struct {
	Name  string `arg:"" optional:"" help:"Model, for instance openai:NAME or PROVIDER/NAME. Without it, the default is shown."`
	Org   string `help:"Set the default of this org instead of the one for all orgs that have none." placeholder:"ORG"`
	Clear bool   `help:"Remove the default."`
	actFlags
}

// Run shows or changes a default model.
func (c *modelDefault) Run(ctx context.Context, a *app) error {
	switch {
	case c.Clear && c.Name != "":
		return usageError("--clear removes the default, so it takes no model", "remove --clear, or the model")
	case c.Name == "" && !c.Clear && c.Org != "":
		return usageError("the default of another org is not shown here", "name a model to set it, or give --clear to remove it")
	case c.Name == "" && !c.Clear:
		return c.showDefault(ctx, a)
	}
	return c.act(ctx, a, engine.DefaultModel{}, func(eng Engine) error {
		of := "of sessions that name no model"
		if c.Org != "" {
			of += " in the org " + c.Org
		}
		if c.DryRun {
			a.message("would change the model %s", a.oneLine(of, cellChars))
			return nil
		}
		set, err := eng.Providers().SetDefaultModel(ctx, c.Org, c.Name)
		if err != nil {
			return err
		}
		if c.Clear {
			a.message("there is no default any more for the model %s", a.oneLine(of, cellChars))
		} else {
			a.message("%s is now the model %s", a.oneLine(set.Name, cellChars), a.oneLine(of, cellChars))
		}
		return c.showForPrograms(ctx, a, set.Name, set)
	})
}

// showDefault shows the default model of the caller's org.
func (c *modelDefault) showDefault(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		found, err := eng.Providers().DefaultModel(ctx)
		if err == nil && found.Name == "" {
			err = &userError{err: perdure.NotFound, message: "there is no default model",
				hint: program + " model default " + a.storeFlags() + "NAME  sets it"}
		}
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{found.Name, found, func() { fmt.Fprintln(a.out, a.text(found.Name)) }})
	})
}
