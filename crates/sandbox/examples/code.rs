//! Code runs in a kernel that remembers what earlier code did.
//!
//! `cargo run -p oncebox --features local --example code -- --local`; locally it takes a Python that has `ipykernel`, which
//! `ONCEBOX_PYTHON_WITH_IPYKERNEL` names.

mod support;

use oncebox::{CODE_INTERPRETER_TEMPLATE, Error, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let sandbox = Sandbox::create(&client).template(CODE_INTERPRETER_TEMPLATE).await?;
    sandbox.run_code("numbers = [2, 3, 5]").await?;
    let code = "print('adding', numbers)\nsum(numbers)";
    let execution = sandbox.run_code(code).on_stdout(|output| print!("{}", output.text)).await?;
    println!("{}", execution.text().unwrap_or("nothing"));

    // An exception is a value: the code ran, and this is what came of it.
    let execution = sandbox.run_code("numbers[7]").await?;
    if let Some(error) = execution.error {
        println!("{}: {}", error.name, error.value);
    }
    let context = sandbox.create_code_context().await?;
    let apart = sandbox.run_code("'numbers' in globals()").context(&context).await?;
    println!("known in another context: {}", apart.text().unwrap_or("nothing"));
    sandbox.kill().await?;
    client.close().await;
    Ok(())
}
