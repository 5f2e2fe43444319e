package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model"
)

const (
	// trialTime is how long a model may take for one word.
	trialTime = 30 * time.Second
	// trialTokens bound the answer. There are models that take no smaller bound.
	trialTokens = 16
)

// errNoAnswer is why a trial was given up.
var errNoAnswer = fmt.Errorf("it said nothing for %s", trialTime)

// tryModel asks a model for its smallest answer, once. Invalid: the name says no model of this build, or its script cannot be read.
func tryModel(ctx context.Context, name string, known *redact.Set) (cli.Trial, error) {
	t, err := readTarget(name)
	if err != nil {
		return cli.Trial{}, err
	}
	trial := cli.Trial{Model: t.String(), Provider: t.provider}
	if variable := t.variable(); variable != "" && t.base == "" && strings.TrimSpace(os.Getenv(variable)) == "" {
		trial.Result, trial.Variable, trial.Why = cli.TrialKeyMissing, variable, variable+" is not set"
		return trial, nil
	}
	asked, err := t.open()
	if err != nil {
		return cli.Trial{}, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, trialTime, errNoAnswer)
	defer stop()
	began := time.Now()
	answer, err := model.Collect(asked.Stream(ctx, model.Request{
		Messages: []perdure.Message{{Role: perdure.RoleUser, Parts: []perdure.Part{{Type: perdure.PartText, Text: "Answer with the word ok."}}}}, MaxTokens: trialTokens, Attempt: 1,
	}), nil)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, errNoAnswer) {
		return cli.Trial{}, cause
	}
	trial.LatencyMS = max(time.Since(began).Milliseconds(), 1)
	trial.Tokens = answer.Usage.InputTokens + answer.Usage.OutputTokens
	if trial.Result = cli.TrialOK; err != nil {
		trial.Result, trial.Code = judged(err)
		trial.Why = known.Mask(err.Error())
	}
	return trial, nil
}

// variable is the one that holds the key of a provider; empty: it needs none.
func (t target) variable() string {
	switch t.provider {
	case providerOpenAI:
		return openaiKey
	case providerAnthropic:
		return anthropicKey
	}
	return ""
}

// judged says in a word of the command line what an adapter's error means.
func judged(err error) (result, code string) {
	failed := (*model.Error)(nil)
	if !errors.As(err, &failed) {
		return cli.TrialUnreachable, ""
	}
	switch failed.Code {
	case model.NoModel:
		return cli.TrialNoModel, string(failed.Code)
	case model.RateLimited, model.QuotaExhausted, model.UsageLimit:
		return cli.TrialLimited, string(failed.Code)
	case model.Unavailable, model.Stalled:
		return cli.TrialUnreachable, string(failed.Code)
	}
	return cli.TrialRefused, string(failed.Code)
}
