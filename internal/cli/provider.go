package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type providerCommand struct {
	List providerList `cmd:"" help:"List where models are asked, and what keeps one from being asked."`
	Test providerTest `cmd:"" help:"Ask a model for its smallest answer, with the keys of this environment, and say what came of it."`
}

type providerList struct{ output }

// Run lists providers.
func (c *providerList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Providers(ctx)
		if err != nil {
			return err
		}
		return listing[engine.Provider]{
			noun: "providers", head: []string{"PROVIDER", "KIND", "READY", "MISSING"},
			name: func(one engine.Provider) string { return one.Name },
			row: func(one engine.Provider) []cell {
				return []cell{{one.Name, bold}, {text: one.Kind}, {text: yesNo(one.Ready)}, {text: one.Missing}}
			},
		}.print(ctx, a, c.output, all)
	})
}

// What came of a trial.
const (
	TrialOK          = "ok"
	TrialKeyMissing  = "key_missing" // nobody was asked
	TrialRefused     = "refused"     // what the provider said no to is the key, the request, or the account
	TrialNoModel     = "no_model"    // the provider has none of that name
	TrialUnreachable = "unreachable" // no answer, or none that is one
	TrialLimited     = "limited"     // too many requests, or a quota that is used up
)

// Trial is what a model answered when it was tried.
type Trial struct {
	Model     string `json:"model"`    // as it means the same from everywhere
	Provider  string `json:"provider"` // the word before the colon
	Result    string `json:"result"`   // one of the Trial words
	LatencyMS int64  `json:"latency_ms,omitempty"`
	Tokens    int64  `json:"tokens,omitempty"`   // that were counted for question and answer; 0: nobody said
	Variable  string `json:"variable,omitempty"` // of the environment, where the key is missing
	Code      string `json:"code,omitempty"`     // of the adapter, where it failed
	Why       string `json:"why,omitempty"`      // likewise, without keys
}

type providerTest struct {
	Model   string `arg:"" help:"What is asked: openai:NAME, anthropic:NAME, or scripted:FILE. It is sent one short question, which may cost a few tokens."`
	BaseURL string `name:"base-url" help:"The server that is asked instead of the provider's own." placeholder:"URL"`
	output
}

// Run tries a model. One that does not answer is an error after what is known of it.
func (c *providerTest) Run(ctx context.Context, a *app) error {
	if err := c.suits(Trial{}); err != nil {
		return err
	}
	if !strings.Contains(c.Model, ":") {
		return misuse("a provider is tried by one of its models, and "+quote(c.Model)+" names none", program+" provider test "+c.Model+":NAME")
	}
	asks := &runCommand{Model: c.Model, BaseURL: c.BaseURL}
	if err := asks.noServer(); err != nil {
		return err
	}
	trial, err := a.TryModel(ctx, asks.modelName())
	if err != nil {
		return asks.noModel(err)
	}
	latency := ""
	if trial.LatencyMS > 0 {
		latency = fmt.Sprintf("%d ms", trial.LatencyMS)
	}
	err = c.show(ctx, a, shown{trial.Model, trial, func() {
		a.fields(
			field{"model", cell{trial.Model, bold}}, field{"result", cell{trial.Result, trialColor(trial.Result)}}, field{"latency", cell{text: latency}},
			field{"code", cell{text: trial.Code}}, field{"why", cell{text: trial.Why}},
		)
	}})
	if err != nil {
		return err
	}
	return trial.fault()
}

func trialColor(result string) color {
	if result == TrialOK {
		return green
	}
	return red
}

// fault is what a trial that failed comes to; nil: it did not.
func (t Trial) fault() error {
	switch t.Result {
	case TrialOK:
		return nil
	case TrialKeyMissing:
		return &fault{code: exitDenied, what: t.Variable + " is not set, and " + t.Model + " is not asked without a key", todo: "set " + t.Variable + " to your key, or name a server of your own with --base-url"}
	case TrialRefused:
		return &fault{code: exitDenied, what: t.Model + " refuses: " + t.Why, todo: "look at the key, and at what the provider's own page says of it"}
	case TrialNoModel:
		return &fault{err: perdure.NotFound, what: "there is no such model, or not for this key: " + t.Model + ": " + t.Why, todo: "docs/how-to/use-your-model.md says how to name a model"}
	case TrialLimited:
		return &fault{err: perdure.Conflict, what: t.Model + " takes no more now: " + t.Why, todo: "wait, or look at the limits of your account"}
	}
	return &fault{code: exitUnreachable, what: t.Model + " does not answer: " + t.Why, todo: "look at the network, and at the URL"}
}
