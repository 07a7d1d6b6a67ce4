//! `quantity`, `isQuantity` and what quantities can do.

use cel::common::types::{CelBool, CelDouble, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::super::quantity::{QUANTITY_TYPE, Quantity};
use super::error;

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(QUANTITY_TYPE.to_owned())?;
    add_overload!(env, fn quantity: (CelString) -> Result<Quantity>)?;
    add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    add_overload!(env, fn sign: (Quantity) -> CelInt)?;
    add_member_overload!(env, fn is_greater_than: (Quantity, Quantity) -> CelBool)?;
    add_member_overload!(env, fn is_less_than: (Quantity, Quantity) -> CelBool)?;
    add_member_overload!(env, fn compare_to: (Quantity, Quantity) -> CelInt)?;
    add_member_overload!(env, fn as_approximate_float: (Quantity) -> CelDouble)?;
    add_member_overload!(env, fn as_integer: (Quantity) -> Result<CelInt>)?;
    add_member_overload!(env, fn is_integer: (Quantity) -> CelBool)?;
    add_member_overload!(env, fn plus: (Quantity, Quantity) -> Quantity, name = "add")?;
    add_member_overload!(env, fn plus_int: (Quantity, CelInt) -> Quantity, name = "add")?;
    add_member_overload!(env, fn minus: (Quantity, Quantity) -> Quantity, name = "sub")?;
    add_member_overload!(env, fn minus_int: (Quantity, CelInt) -> Quantity, name = "sub")
}

fn quantity(text: &CelString<'_>) -> Result<Quantity, ExecutionError> {
    Quantity::parse(text.inner()).map_err(|said| error("quantity", said))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    CelBool::from(Quantity::parse(text.inner()).is_ok())
}

fn sign(of: &Quantity) -> CelInt {
    CelInt::from(of.sign())
}

fn is_greater_than(a: &Quantity, b: &Quantity) -> CelBool {
    CelBool::from(a > b)
}

fn is_less_than(a: &Quantity, b: &Quantity) -> CelBool {
    CelBool::from(a < b)
}

fn compare_to(a: &Quantity, b: &Quantity) -> CelInt {
    CelInt::from(a.cmp(b) as i64)
}

fn as_approximate_float(of: &Quantity) -> CelDouble {
    CelDouble::from(of.approximate())
}

fn as_integer(of: &Quantity) -> Result<CelInt, ExecutionError> {
    of.integer()
        .map(CelInt::from)
        .ok_or_else(|| error("asInteger", "cannot convert value to integer"))
}

fn is_integer(of: &Quantity) -> CelBool {
    CelBool::from(of.integer().is_some())
}

fn plus(a: &Quantity, b: &Quantity) -> Quantity {
    a.plus(*b)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "overloads take references"
)]
fn plus_int(a: &Quantity, b: &CelInt) -> Quantity {
    a.plus(Quantity::of(*b.inner()))
}

fn minus(a: &Quantity, b: &Quantity) -> Quantity {
    a.minus(*b)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "overloads take references"
)]
fn minus_int(a: &Quantity, b: &CelInt) -> Quantity {
    a.minus(Quantity::of(*b.inner()))
}
