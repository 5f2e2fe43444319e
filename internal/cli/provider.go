package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type providerCommand struct {
	List providerList `cmd:"" help:"List model providers, and what is missing to use them."`
	Test providerTest `cmd:"" help:"Send a minimal request to a model, with the keys of this environment."`
}

type providerList struct{ outputFlags }

// Run lists providers.
func (c *providerList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Connections().Providers(ctx)
		if err != nil {
			return err
		}
		return outputList[engine.Provider]{
			noun: "providers", head: []string{"PROVIDER", "KIND", "READY", "MISSING"},
			name: func(one engine.Provider) string { return one.Name },
			row: func(one engine.Provider) []cell {
				return []cell{{one.Name, bold}, {text: one.Kind}, {text: yesNo(one.Ready)}, {text: one.Missing}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

// The results of a trial.
const (
	TestOK          = "ok"
	TestKeyMissing  = "key_missing" // no request was sent
	TestRefused     = "refused"     // the provider rejected the key, the request or the account
	TestNoModel     = "no_model"    // the provider has no model of that name
	TestUnreachable = "unreachable" // no response, or an invalid one
	TestRateLimited = "limited"     // too many requests, or an exhausted quota
)

// ModelTest is the result of a minimal request to a model.
type ModelTest struct {
	Model     string `json:"model"`    // name that is valid everywhere
	Provider  string `json:"provider"` // part of the name before the colon
	Result    string `json:"result"`   // one of the Trial constants
	LatencyMS int64  `json:"latency_ms,omitempty"`
	Tokens    int64  `json:"tokens,omitempty"`   // of request and response; 0: not reported
	Variable  string `json:"variable,omitempty"` // name of the missing environment variable
	Code      string `json:"code,omitempty"`     // error code of the adapter
	Why       string `json:"why,omitempty"`      // error text, without keys
}

type providerTest struct {
	Model   string `arg:"" help:"Model: openai:NAME, anthropic:NAME or scripted:FILE. It receives one short prompt, which may cost a few tokens."`
	BaseURL string `name:"base-url" help:"Use this server instead of the provider's own." placeholder:"URL"`
	outputFlags
}

// Run tries a model. If the trial fails, it prints what is known and returns an error.
func (c *providerTest) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(ModelTest{}); err != nil {
		return err
	}
	if !strings.Contains(c.Model, ":") {
		return usageError("to test a provider, name one of its models; "+quote(c.Model)+" is not a model",
			program+" provider test "+c.Model+":NAME")
	}
	asks := &runCommand{Model: c.Model, BaseURL: c.BaseURL}
	if err := asks.checkBaseURL(); err != nil {
		return err
	}
	trial, err := a.TestModel(ctx, asks.modelName(), a.flags.ModelOption)
	if err != nil {
		return asks.checkModelFlag(err)
	}
	latency := ""
	if trial.LatencyMS > 0 {
		latency = fmt.Sprintf("%d ms", trial.LatencyMS)
	}
	err = c.show(ctx, a, outputObject{trial.Model, trial, func() {
		a.fields(
			field{"model", cell{trial.Model, bold}}, field{"result", cell{trial.Result, testColor(trial.Result)}},
			field{"latency", cell{text: latency}},
			field{"code", cell{text: trial.Code}}, field{"why", cell{text: trial.Why}},
		)
	}})
	if err != nil {
		return err
	}
	return trial.userError()
}

func testColor(result string) color {
	if result == TestOK {
		return green
	}
	return red
}

// userError returns the error of a failed trial; nil: it succeeded.
func (t ModelTest) userError() error {
	switch t.Result {
	case TestOK:
		return nil
	case TestKeyMissing:
		return &userError{code: exitDenied, message: t.Variable + " is not set, but " + t.Model + " needs a key",
			hint: "set " + t.Variable + " to your key, or use your own server with --base-url"}
	case TestRefused:
		return &userError{code: exitDenied, message: t.Model + " rejected the request: " + t.Why,
			hint: "check the key, and its permissions on the provider's website"}
	case TestNoModel:
		return &userError{err: perdure.NotFound,
			message: "the model does not exist, or this key has no access to it: " + t.Model + ": " + t.Why,
			hint:    "docs/how-to/use-your-model.md explains the names of models"}
	case TestRateLimited:
		return &userError{err: perdure.Conflict, message: t.Model + " is rate-limited: " + t.Why,
			hint: "wait, or check the limits of your account"}
	}
	return &userError{code: exitUnreachable, message: t.Model + " does not answer: " + t.Why,
		hint: "check the network and the URL"}
}
