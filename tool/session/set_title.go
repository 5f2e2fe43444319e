package session

import (
	"context"
	_ "embed" // the text that the model reads
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// TitleCapability is the capability of set_title.
const TitleCapability = "session_title"

const setTitleName = "set_title"

//go:embed set_title.md
var setTitleText string

type setTitleIn struct {
	Title string `json:"title" minLength:"1" maxLength:"512" jsonschema:"The new title, on one line."`
}

type setTitleOut struct {
	Title string `json:"title"`
}

// SetTitle returns the tool that sets the title of the session.
func SetTitle() tool.Tool {
	yes, no := true, false
	return tool.New(tool.Spec{
		Name:        setTitleName,
		DisplayName: "Set Title",
		Description: strings.TrimSpace(setTitleText),
		Class:       perdure.Idempotent,
		SessionOnly: true,
		NeedsEnv:    true,
		Narration:   tool.Narration{Started: "Renaming the session to {title}", Completed: "Renamed the session to {title}", Failed: "Could not rename the session"},
		Hints:       tool.Hints{Idempotent: &yes, Destructive: &no, CapabilityID: TitleCapability},
	}, setTitle)
}

func setTitle(ctx context.Context, in setTitleIn, env tool.Env) (tool.Result, error) {
	if env.Session == nil {
		return tool.Missing("Session mutator", setTitleName+" requires it to set the title."), nil
	}
	title := strings.Join(strings.Fields(in.Title), " ")
	if err := env.Session.SetTitle(ctx, title); err != nil {
		return portError(ctx, err), nil
	}
	return tool.Success(setTitleOut{Title: title}), nil
}
