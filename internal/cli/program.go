package cli

import (
	"cmp"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/cli/admin"
)

// Program is what the command line of a program has beyond the commands of this package. The zero
// value is that of perdure.
type Program struct {
	Name     string    // of the binary; empty: perdure
	Flags    any       // a pointer to a struct with more flags of every command; nil: none
	Commands []Command // more commands
}

// Command is a command that one program has.
type Command struct {
	Name, Help, Group string
	// Run is a pointer to a struct with the command's flags and the method
	// Run(context.Context, Messages) error.
	Run any
}

// Messages prints data and messages.
type Messages = admin.Messages

// options returns the part of the grammar that differs between programs.
func (p Program) options() []kong.Option {
	options := []kong.Option{kong.Name(cmp.Or(p.Name, program)), kong.Description(about)}
	if p.Flags != nil {
		options = append(options, kong.Embed(p.Flags))
	}
	for _, c := range p.Commands {
		options = append(options, kong.DynamicCommand(c.Name, c.Help, c.Group, c.Run))
	}
	return options
}
