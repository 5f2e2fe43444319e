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
	// trialTime is how long a model may take for its response.
	trialTime = 30 * time.Second
	// trialTokens limits the response. Some models accept no smaller limit.
	trialTokens = 16
)

// errNoResponse is the cause of a trial without a response.
var errNoResponse = fmt.Errorf("no response within %s", trialTime)

// testModel sends a minimal request to a model, once. Invalid: the name matches no model of this
// build, or its script cannot be read.
func testModel(ctx context.Context, name string, options []string, known *redact.Set) (cli.ModelTest, error) {
	settings, err := readModelOptions(options)
	if err != nil {
		return cli.ModelTest{}, err
	}
	t, err := readTarget(name)
	if err != nil {
		return cli.ModelTest{}, err
	}
	trial := cli.ModelTest{Model: t.String(), Provider: t.provider}
	if variable := t.variable(); variable != "" && t.base == "" && strings.TrimSpace(os.Getenv(variable)) == "" {
		trial.Result, trial.Variable, trial.Why = cli.TestKeyMissing, variable, variable+" is not set"
		return trial, nil
	}
	asked, err := t.open(settings, nil)
	if err != nil {
		return cli.ModelTest{}, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, trialTime, errNoResponse)
	defer stop()
	began := time.Now()
	answer, err := model.Collect(asked.Stream(ctx, model.Request{
		Messages: []perdure.Message{{Role: perdure.RoleUser,
			Parts: []perdure.Part{{Type: perdure.PartText, Text: "Answer with the word ok."}}}}, MaxTokens: trialTokens,
		Attempt: 1,
	}), nil)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, errNoResponse) {
		return cli.ModelTest{}, cause
	}
	trial.LatencyMS = max(time.Since(began).Milliseconds(), 1)
	trial.Tokens = answer.Usage.InputTokens + answer.Usage.OutputTokens
	if trial.Result = cli.TestOK; err != nil {
		trial.Result, trial.Code = modelTestResult(err)
		trial.Why = known.Mask(err.Error())
	}
	return trial, nil
}

// variable returns the variable with the key of a provider; empty: it needs none.
func (t target) variable() string {
	switch t.provider {
	case providerOpenAI:
		return openaiKey
	case providerAnthropic:
		return anthropicKey
	}
	return ""
}

// modelTestResult maps an error of an adapter to a result of cli.Trial.
func modelTestResult(err error) (result, code string) {
	failed := (*model.Error)(nil)
	if !errors.As(err, &failed) {
		return cli.TestUnreachable, ""
	}
	switch failed.Code {
	case model.ModelUnavailable:
		return cli.TestNoModel, string(failed.Code)
	case model.RateLimited, model.QuotaExhausted, model.UsageLimit:
		return cli.TestRateLimited, string(failed.Code)
	case model.Unavailable, model.Stalled:
		return cli.TestUnreachable, string(failed.Code)
	}
	return cli.TestRefused, string(failed.Code)
}
