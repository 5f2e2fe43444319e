package core

import (
	"context"
	_ "embed" // the tool description

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed echo.md
var echoText string

type echoIn struct {
	Message string `json:"message" jsonschema:"The text to return."`
}

type echoOut struct {
	Echoed string `json:"echoed"`
	Length int    `json:"length" jsonschema:"In UTF-8 bytes."`
}

// Echo returns the tool that returns its message.
func Echo() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "echo",
		DisplayName: "Echo",
		Description: described(echoText),
		Class:       perdure.Pure,
		SessionOnly: true,
		Trusted:     true,
		Hints:       tool.Hints{ReadOnly: yes(), Idempotent: yes()},
	}, func(_ context.Context, in echoIn, _ tool.Env) (echoOut, error) {
		return echoOut{Echoed: in.Message, Length: len(in.Message)}, nil
	})
}
