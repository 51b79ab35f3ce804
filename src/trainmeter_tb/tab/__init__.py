"""The trainmeter tab of TensorBoard: a dynamic plugin that reads through TensorBoard's own data provider."""
