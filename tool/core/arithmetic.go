package core

import (
	"context"
	_ "embed" // the tool descriptions
	"math"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed add.md
var addText string

//go:embed subtract.md
var subtractText string

//go:embed multiply.md
var multiplyText string

//go:embed divide.md
var divideText string

type operands struct {
	A float64 `json:"a" jsonschema:"The first number."`
	B float64 `json:"b" jsonschema:"The second number."`
}

type outcome struct {
	Result float `json:"result"`
}

// float is a number that is always written with a fraction, so that 8 becomes 8.0.
type float float64

// MarshalJSON writes the shortest form that reads back the same.
func (f float) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(f), 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return []byte(text), nil
}

// Add returns the tool that adds two numbers.
func Add() tool.Tool {
	return arithmetic("add", "Add", addText, func(a, b float64) float64 { return a + b })
}

// Subtract returns the tool that subtracts the second number from the first.
func Subtract() tool.Tool {
	return arithmetic("subtract", "Subtract", subtractText, func(a, b float64) float64 { return a - b })
}

// Multiply returns the tool that multiplies two numbers.
func Multiply() tool.Tool {
	return arithmetic("multiply", "Multiply", multiplyText, func(a, b float64) float64 { return a * b })
}

// Divide returns the tool that divides the first number by the second.
func Divide() tool.Tool {
	return arithmetic("divide", "Divide", divideText, func(a, b float64) float64 { return a / b })
}

func arithmetic(name, display, text string, calculate func(a, b float64) float64) tool.Tool {
	return tool.New(tool.Spec{
		Name:        name,
		DisplayName: display,
		Description: described(text),
		Class:       perdure.Pure,
		SessionOnly: true,
		Trusted:     true,
		Hints:       tool.Hints{ReadOnly: yes(), Idempotent: yes()},
	}, func(_ context.Context, in operands, _ tool.Env) (outcome, error) {
		if name == "divide" && in.B == 0 {
			return outcome{}, tool.Errorf("Division by zero")
		}
		result := calculate(in.A, in.B)
		if math.IsInf(result, 0) || math.IsNaN(result) {
			return outcome{}, tool.Errorf("Result is not a finite number")
		}
		return outcome{float(result)}, nil
	})
}
