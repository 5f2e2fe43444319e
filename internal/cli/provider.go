package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type providerCommand struct {
	List   providerList   `cmd:"" aliases:"ls" help:"List model providers, and what is missing to use them."`
	Show   providerShow   `cmd:"" help:"Show a model provider, and which of its keys is used."`
	Set    providerSet    `cmd:"" help:"Store a model provider with its key, or change it. The key is read from stdin, a file or a hidden prompt."`
	Test   providerTest   `cmd:"" help:"Send a minimal request to a model of a provider."`
	Delete providerDelete `cmd:"" aliases:"rm" help:"Delete a stored model provider with its key."`
}

type providerList struct{ outputFlags }

// Run lists providers.
func (c *providerList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Providers().List(ctx)
		if err != nil {
			return err
		}
		return outputList[engine.Provider]{
			noun: "providers", head: []string{"PROVIDER", "KIND", "READY", "KEY", "DEFAULT MODEL", "MISSING"},
			name: func(one engine.Provider) string { return one.Name },
			row: func(one engine.Provider) []cell {
				return []cell{{one.Name, bold}, {text: one.Kind}, {text: yesNo(one.Ready)}, {text: keyInUse(one)},
					{text: one.Model}, {text: one.Missing}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

// keyInUse says where the key of a provider comes from; empty: it has none.
func keyInUse(p engine.Provider) string {
	switch {
	case p.Source == engine.ProviderFromEnvironment:
		return "$" + p.Variable
	case p.HasKey:
		return "stored"
	}
	return ""
}

type providerShow struct {
	Name string `arg:"" help:"Name of the provider."`
	outputFlags
}

// Run shows a provider.
func (c *providerShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		one, err := eng.Providers().Get(ctx, c.Name)
		if err != nil {
			return providerNotFound(a, c.Name, err)
		}
		return c.show(ctx, a, outputObject{one.Name, one, func() { showProvider(a, one) }})
	})
}

// showProvider prints a provider.
func showProvider(a *app, one engine.Provider) {
	unused := ""
	if one.Source == engine.ProviderFromEnvironment && one.Version > 0 {
		unused = "its stored URL and key are not used while " + one.Variable + " is set"
	}
	a.fields(
		field{"provider", cell{one.Name, bold}}, field{"kind", cell{text: one.Kind}},
		field{"server", cell{text: one.BaseURL}}, field{"key", cell{text: keyInUse(one)}},
		field{"default model", cell{text: one.Model}}, field{"ready", cell{text: yesNo(one.Ready)}},
		field{"missing", cell{text: one.Missing}}, field{"note", cell{text: unused}},
		field{"changed", cell{text: moment(one.UpdatedAt, a.now())}},
	)
}

// providerNotFound adds advice to the error of a provider that does not exist.
func providerNotFound(a *app, name string, err error) error {
	if !errors.Is(err, perdure.NotFound) {
		return err
	}
	own := program + " provider "
	return &userError{err: err, message: "there is no provider " + quote(name),
		hint: own + "list " + a.storeFlags() + " shows all; " + own + "set " + a.storeFlags() + quote(name) + " adds it"}
}

type providerSet struct {
	Name    string `arg:"" help:"Name of the provider: lower-case letters, digits and dashes. Models are then named NAME/MODEL."`
	Kind    string `help:"Protocol of the server: openai (Chat Completions) or anthropic (Messages). Default: that of the stored provider." placeholder:"KIND" enum:",openai,anthropic" default:""`
	BaseURL string `name:"base-url" help:"URL of the server. Default: the kind's own provider." placeholder:"URL"`
	Model   string `name:"default-model" help:"Default model, as the provider names it." placeholder:"MODEL"`
	KeyFile string `name:"key-file" help:"Read it from this file instead of stdin or a prompt. One trailing newline is removed." placeholder:"FILE" type:"path" xor:"key"`
	NoKey   bool   `name:"no-key" help:"The server needs no key; a stored one is removed." xor:"key"`
	KeepKey bool   `name:"keep-key" help:"Keep the stored key. This is not possible with another URL." xor:"key"`
	actFlags
}

// Run stores a provider.
func (c *providerSet) Run(ctx context.Context, a *app) error {
	return c.act(ctx, a, engine.Provider{}, func(eng Engine) error {
		w := engine.ProviderWrite{Name: c.Name, Kind: c.Kind, BaseURL: c.BaseURL, Model: c.Model}
		if err := engine.CheckProviderName(c.Name); err != nil {
			return usageError(err.Error(), program+" provider set "+a.storeFlags()+"gate, for instance")
		}
		if c.DryRun {
			a.message("would store the provider %s", a.oneLine(c.Name, cellChars))
			return nil
		}
		if !c.KeepKey {
			key := ""
			if !c.NoKey {
				var err error
				if key, err = c.readKey(ctx, a); err != nil {
					return err
				}
			}
			w.Key = &key
		}
		one, err := eng.Providers().Put(ctx, w)
		if err != nil {
			return err
		}
		a.message("stored the provider %s; its models are named %s/MODEL", a.oneLine(one.Name, cellChars),
			a.oneLine(one.Name, cellChars))
		if one.Source == engine.ProviderFromEnvironment {
			a.message("%s %s is set, and is used instead of the stored key", a.colors.stderr.mark(dim, "note:"), one.Variable)
		}
		return c.show(ctx, a, outputObject{one.Name, one, func() { showProvider(a, one) }})
	})
}

// readKey reads the key. It is never an argument, which other users of the machine can see.
func (c *providerSet) readKey(ctx context.Context, a *app) (string, error) {
	key, err := secretInput{File: c.KeyFile}.read(ctx, a, "key of "+c.Name)
	if err != nil {
		var known *userError
		if errors.As(err, &known) && known.hint != "" {
			known.hint = "pipe the key to stdin, name a file with --key-file, or use --no-key for a server that needs none"
		}
		return "", err
	}
	return strings.TrimSpace(key), nil
}

type providerTest struct {
	Model   string `arg:"" help:"Provider, or one of its models: NAME, NAME/MODEL, openai:NAME, anthropic:NAME or scripted:FILE. The model receives one short prompt, which may cost a few tokens. Without a model, the provider's default model is asked."`
	BaseURL string `name:"base-url" help:"Use this server instead of the provider's own." placeholder:"URL"`
	outputFlags
}

// Run tries a model. If the trial fails, it prints what is known and returns an error.
func (c *providerTest) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(engine.ProviderTest{}); err != nil {
		return err
	}
	asks := &runCommand{Model: c.Model, BaseURL: c.BaseURL}
	if err := asks.checkBaseURL(); err != nil {
		return err
	}
	test, err := c.ask(ctx, a, asks)
	if err != nil {
		return err
	}
	latency := ""
	if test.LatencyMS > 0 {
		latency = fmt.Sprintf("%d ms", test.LatencyMS)
	}
	err = c.show(ctx, a, outputObject{test.Model, test, func() {
		a.fields(
			field{"model", cell{test.Model, bold}}, field{"result", cell{test.Result, testColor(test.Result)}},
			field{"latency", cell{text: latency}},
			field{"code", cell{text: test.Code}}, field{"why", cell{text: test.Why}},
		)
	}})
	if err != nil {
		return err
	}
	return testError(test)
}

// ask tests a model with the keys of this environment, or else a provider of the store. With
// --server, the server does it.
func (c *providerTest) ask(ctx context.Context, a *app, asks *runCommand) (engine.ProviderTest, error) {
	i := strings.IndexAny(c.Model, "/:")
	name, inner := c.Model, ""
	if i >= 0 {
		name, inner = c.Model[:i], c.Model[i+1:]
	}
	var here engine.ProviderTest
	var unknown error
	defer a.noteWait("an answer of the model")()
	if i >= 0 && a.flags.Server == "" {
		here, unknown = a.TestModel(ctx, asks.modelName(), a.flags.ModelOption)
		if unknown == nil && here.Result != engine.TestKeyMissing {
			return here, nil
		}
		if c.BaseURL != "" || unknown != nil && !errors.Is(unknown, perdure.Invalid) {
			return here, asks.checkModelFlag(unknown)
		}
	}
	stored, err := c.askStored(ctx, a, name, inner)
	switch {
	case err == nil && stored.Result != engine.TestKeyMissing:
		return stored, nil
	case i >= 0 && a.flags.Server == "" && unknown == nil:
		return here, nil
	case i >= 0 && a.flags.Server == "" && errors.Is(err, perdure.NotFound):
		return here, asks.checkModelFlag(unknown)
	case i < 0 && (err == nil || errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid)):
		return here, usageError("to test a provider, name one of its models: "+quote(c.Model)+
			" is not a model, and no provider of this name has a default model", program+" provider test "+quote(c.Model+"/NAME"))
	}
	return stored, err
}

// askStored tests a model of a stored provider where the store is.
func (c *providerTest) askStored(ctx context.Context, a *app, name, model string) (test engine.ProviderTest, err error) {
	err = a.read(ctx, func(eng Engine) error { // creates no data directory
		p, err := eng.Providers().Get(ctx, name)
		if err == nil && p.Version == 0 && a.flags.Server == "" {
			err = fmt.Errorf("provider %.80q: %w", name, perdure.NotFound)
		}
		return err
	})
	if err != nil {
		return test, err
	}
	return test, a.with(ctx, OpenOptions{Access: Writing}, func(eng Engine) (err error) {
		test, err = eng.Providers().Test(ctx, name, model)
		return err
	})
}

func testColor(result string) color {
	if result == engine.TestOK {
		return green
	}
	return red
}

// testError returns the error of a failed test; nil: it succeeded.
func testError(t engine.ProviderTest) error {
	switch t.Result {
	case engine.TestOK:
		return nil
	case engine.TestKeyMissing:
		if t.Variable == "" {
			return &userError{code: exitDenied, message: t.Model + " needs a key: " + t.Why,
				hint: program + " provider set " + quote(t.Provider) + " stores one"}
		}
		return &userError{code: exitDenied, message: t.Variable + " is not set, but " + t.Model + " needs a key",
			hint: "set " + t.Variable + " to your key, store one with " + program + " provider set " + t.Provider +
				", or use your own server with --base-url"}
	case engine.TestRefused:
		return &userError{code: exitDenied, message: t.Model + " rejected the request: " + t.Why,
			hint: "check the key, and its permissions on the provider's website"}
	case engine.TestNoModel:
		return &userError{err: perdure.NotFound,
			message: "the model does not exist, or this key has no access to it: " + t.Model + ": " + t.Why,
			hint:    "docs/how-to/use-your-model.md explains the names of models"}
	case engine.TestRateLimited:
		return &userError{err: perdure.Conflict, message: t.Model + " is rate-limited: " + t.Why,
			hint: "wait, or check the limits of your account"}
	}
	return &userError{code: exitUnreachable, message: t.Model + " does not answer: " + t.Why,
		hint: "check the network and the URL"}
}

type providerDelete struct {
	Name string `arg:"" help:"Name of the provider."`
	deleteFlags
}

// Run deletes a stored provider.
func (c *providerDelete) Run(ctx context.Context, a *app) error {
	return c.flags().act(ctx, a, deletedOutput{}, func(eng Engine) error {
		return c.remove(ctx, a, "provider", c.Name, func() error {
			err := eng.Providers().Delete(ctx, c.Name)
			if errors.Is(err, perdure.NotFound) {
				err = &userError{err: err, message: "no provider " + quote(c.Name) + " is stored",
					hint: program + " provider list " + a.storeFlags() + " shows all providers"}
			}
			return err
		})
	})
}
