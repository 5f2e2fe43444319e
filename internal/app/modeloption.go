package app

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/openai"
)

// modelOption is one --model-option: how the models of a provider are asked.
type modelOption struct {
	provider string // empty: of every provider that has the option
	name     string
	set      func(*modelSettings) // sets the value
}

// modelOptions are options in their order; a later one replaces an earlier one of the same name.
type modelOptions []modelOption

// modelSettings are the values of the options; the zero value is the default of each.
type modelSettings struct {
	omitUsage, whole bool
	maxTokens        int
	maxTokensField   string
	firstToken       time.Duration
	maxTools         int
}

// optionForm is the syntax of an option, for users.
const optionForm = "use NAME=VALUE, or PROVIDER.NAME=VALUE for one provider; the names are stream_options, stream, max_tokens, max_tokens_field, first_token_timeout and max_tools"

// readModelOptions parses the values of --model-option. Invalid: an option does not exist, or its
// value is wrong.
func readModelOptions(texts []string) (modelOptions, error) {
	var all modelOptions
	for _, text := range texts {
		o, err := readModelOption(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func readModelOption(text string) (modelOption, error) {
	left, value, ok := strings.Cut(text, "=")
	provider, name, both := strings.Cut(left, ".")
	if !both {
		provider, name = "", left
	}
	wrong := func(why string) (modelOption, error) {
		return modelOption{}, fmt.Errorf("%w model option %q: %s", perdure.Invalid, text, why)
	}
	switch {
	case !ok:
		return wrong(optionForm)
	case provider == providerScripted:
		return wrong("scripts have no options; " + providerOpenAI + " and " + providerAnthropic + " have some, and so have stored providers")
	case provider != "" && engine.CheckProviderName(provider) != nil:
		return wrong(optionForm)
	case provider == providerAnthropic && slices.Contains([]string{"stream_options", "stream", "max_tokens_field"}, name):
		return wrong("only " + providerOpenAI + " has it")
	}
	set, why := optionSetter(name, strings.TrimSpace(value))
	if why != "" {
		return wrong(why)
	}
	return modelOption{provider: provider, name: name, set: set}, nil
}

// optionSetter returns the function that sets an option, or what is wrong with its value.
func optionSetter(name, value string) (set func(*modelSettings), wrong string) {
	isOn, noBool := strconv.ParseBool(cmp.Or(map[string]string{"on": "true", "off": "false"}[value], value))
	n, noNumber := strconv.Atoi(value)
	took, noDuration := time.ParseDuration(value)
	switch name {
	case "stream_options", "stream":
		if noBool != nil {
			return nil, "the value is true or false"
		}
		if name == "stream" {
			return func(s *modelSettings) { s.whole = !isOn }, ""
		}
		return func(s *modelSettings) { s.omitUsage = !isOn }, ""
	case "max_tokens", "max_tools":
		if noNumber != nil || n < 1 {
			return nil, "the value is a number greater than 0"
		}
		if name == "max_tools" {
			return func(s *modelSettings) { s.maxTools = n }, ""
		}
		return func(s *modelSettings) { s.maxTokens = n }, ""
	case "max_tokens_field":
		if !slices.Contains([]string{"max_tokens", "max_completion_tokens", "none"}, value) {
			return nil, "the value is max_tokens, max_completion_tokens or none"
		}
		return func(s *modelSettings) { s.maxTokensField = value }, ""
	case "first_token_timeout":
		if noDuration != nil || took <= 0 {
			return nil, "the value is a duration greater than 0, for instance 20m"
		}
		return func(s *modelSettings) { s.firstToken = took }, ""
	}
	return nil, "there is no such option; " + optionForm
}

// settings returns the values for a provider.
func (all modelOptions) settings(provider string) modelSettings {
	var s modelSettings
	for _, o := range all {
		if o.provider == "" || o.provider == provider {
			o.set(&s)
		}
	}
	return s
}

// openaiConfig adds the options for a provider to a configuration.
func (all modelOptions) openaiConfig(provider string, c openai.Config) openai.Config {
	s := all.settings(provider)
	c.OmitUsage, c.WholeAnswers, c.MaxTokens, c.MaxTokensName, c.FirstToken = s.omitUsage, s.whole, s.maxTokens, s.maxTokensField, s.firstToken
	c.MaxTools = s.maxTools
	return c
}

// anthropicConfig adds the options for a provider to a configuration.
func (all modelOptions) anthropicConfig(provider string, c anthropic.Config) anthropic.Config {
	s := all.settings(provider)
	c.MaxTokens, c.MaxTools, c.FirstToken = s.maxTokens, s.maxTools, s.firstToken
	return c
}
